"""Chunks that a cluster does in the tests, with faults on demand, and the run that has them done.

`main` runs in a process of its own: what Ray leaves open ends with it. Its argument is JSON:
address, folder, chunks, stall_seconds. It prints what came of it as JSON. SIGTERM interrupts it, as
a command of ours.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from extraction.faults import crash, hang
from headrace.errors import HeadraceError
from headrace.extraction.ledger import Entry, Ledger
from headrace.extraction.ray.open import on_ray
from headrace.extraction.ray.settings import RaySettings
from headrace.extraction.request import Request
from headrace.runtime.lock import file_lock
from headrace.runtime.speaker import rounds_to_do
from headrace.runtime.workers import Work, work_through
from headrace.text_file import write_whole


def squares(argument, send):
    """Writes the square of the number that a chunk says, or suffers the fault that it says."""
    ledger = Ledger(Path(argument["folder"]))
    with ledger.as_worker():
        for speakers in rounds_to_do(argument, send):
            begun = []
            for speaker in speakers:
                speaker.begin()
                begun.append(speaker)
            for speaker in begun:
                FAULTS[speaker.told.get("fault")](ledger.folder.parent)
                speaker.has_read()
                speaker.say({"process": os.getpid(), "worker": argument["worker"]})
                text = str(speaker.told["number"] ** 2)
                write_whole(ledger.folder / speaker.chunk, text)
                ledger.write(speaker.chunk, Entry(files=((speaker.chunk, len(text)),), facts=None))
                speaker.done()


class Means:
    """A model: the mean of each colour, in bands of eight rows."""

    size = (64, 64)
    version = "1"

    def __call__(self, frames):
        return frames.float().unflatten(2, (-1, 8)).mean((3, 4)).flatten(1)


def lose_the_actor(folder):
    """It is killed, as by Ray where memory runs out."""
    psutil.Process().parent().kill()
    hang()


def wait_at_the_gate(folder):
    """Until the test opens it."""
    with suppress(OSError):  # nobody listens any more
        bell = os.open(folder / "bell", os.O_WRONLY | os.O_NONBLOCK)
        os.write(bell, b".")
        os.close(bell)
    with file_lock(folder / "gate", is_shared=True, waits=True):
        pass


FAULTS = {
    **{None: lambda folder: None, "crash": crash, "hang": hang},
    **{"actor": lose_the_actor, "gate": wait_at_the_gate},
}


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        came = _came(json.loads(sys.argv[1]))
    except HeadraceError as error:
        came = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(came))


def _came(asked):
    ledger, todo = Ledger(Path(asked["folder"])), asked["chunks"]
    done_now, said, handlers = [], [], set()

    def done_here(chunk):
        done_now.append(chunk)
        handlers.add(signal.getsignal(signal.SIGTERM))

    with ledger.held(Request(kind="squares", asked={}, videos=())):
        done = ledger.done(todo)
        work = Work(
            function=squares,
            argument={"folder": asked["folder"]},
            claims=ledger.claims(),
            workers=1,
            stall_seconds=asked["stall_seconds"],
        )
        outcome = work_through(
            work,
            {name: told for name, told in todo.items() if name not in done},
            on_said=lambda worker, chunk, what: said.append(what),
            on_done=done_here,
            run=on_ray(RaySettings(address=asked["address"])),
        )
    return {
        **{"fallen": outcome.fallen, "is_interrupted": outcome.is_interrupted},
        **{"were_done": sorted(done), "done": done_now, "said": said},
        "hears_sigterm": handlers == {signal.default_int_handler},
    }
