"""Program that runs chunks on a cluster; Ray's leftovers end with this process.

The argument is JSON: address, folder, chunks, stall_seconds. Prints the outcome as JSON. SIGTERM
interrupts it, as it does a headrace command.
"""

import json
import signal
import sys
from pathlib import Path

from extraction.ray_functions import squares
from headrace.errors import HeadraceError
from headrace.extraction.extraction_options import OutputSpec
from headrace.extraction.features.feature_options import on_ray
from headrace.extraction.journal import Journal
from headrace.extraction.ray.settings import RaySettings
from headrace.runtime.worker_pool import PoolTask, run_chunks


def main() -> None:
    options = json.loads(sys.argv[1])
    journal, chunks = Journal(Path(options["folder"])), options["chunks"]
    done_now, messages, handlers = [], [], set()
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def on_done(chunk):
        done_now.append(chunk)
        handlers.add(signal.getsignal(signal.SIGTERM))

    with journal.held(OutputSpec(kind="squares", asked={}, videos=())):
        done = journal.done(chunks)
        task = PoolTask(
            function=squares,
            argument={"folder": options["folder"]},
            claims=journal.claims(),
            workers=1,
            stall_seconds=options["stall_seconds"],
        )
        outcome = run_chunks(
            task,
            {name: payload for name, payload in chunks.items() if name not in done},
            on_message=lambda worker, chunk, message: messages.append(message),
            on_done=on_done,
            run=on_ray(RaySettings(address=options["address"])),
        )
    result = {
        "poisoned": outcome.poisoned,
        "is_interrupted": outcome.is_interrupted,
        "were_done": sorted(done),
        "done": done_now,
        "messages": messages,
        "handles_sigterm": handlers == {signal.default_int_handler},
    }
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    try:
        main()
    except HeadraceError as error:
        sys.stdout.write(json.dumps({"error": f"{type(error).__name__}: {error}"}))
