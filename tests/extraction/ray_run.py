"""Has a cluster do chunks, in a process of its own: what Ray leaves open ends with it.

Its argument is JSON: address, folder, chunks, stall_seconds. It prints what came of it as JSON.
SIGTERM interrupts it, as a command of ours.
"""

import json
import signal
import sys
from pathlib import Path

from extraction.ray_functions import squares
from headrace.errors import HeadraceError
from headrace.extraction.extraction_options import OutputSpec
from headrace.extraction.journal import Journal
from headrace.extraction.ray.open_cluster import on_ray
from headrace.extraction.ray.settings import RaySettings
from headrace.runtime.worker_pool import PoolTask, run_chunks


def main() -> None:
    asked = json.loads(sys.argv[1])
    journal, todo = Journal(Path(asked["folder"])), asked["chunks"]
    done_now, said, handlers = [], [], set()
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def done_here(chunk):
        done_now.append(chunk)
        handlers.add(signal.getsignal(signal.SIGTERM))

    with journal.held(OutputSpec(kind="squares", asked={}, videos=())):
        done = journal.done(todo)
        work = PoolTask(
            function=squares,
            argument={"folder": asked["folder"]},
            claims=journal.claims(),
            workers=1,
            stall_seconds=asked["stall_seconds"],
        )
        outcome = run_chunks(
            work,
            {name: told for name, told in todo.items() if name not in done},
            on_message=lambda worker, chunk, what: said.append(what),
            on_done=done_here,
            run=on_ray(RaySettings(address=asked["address"])),
        )
    came = {
        "fallen": outcome.poisoned,
        "is_interrupted": outcome.is_interrupted,
        "were_done": sorted(done),
        "done": done_now,
        "said": said,
        "hears_sigterm": handlers == {signal.default_int_handler},
    }
    sys.stdout.write(json.dumps(came))


if __name__ == "__main__":
    try:
        main()
    except HeadraceError as error:
        sys.stdout.write(json.dumps({"error": f"{type(error).__name__}: {error}"}))
