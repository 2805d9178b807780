"""Work of the children on a cluster, for tests: a small engine with a journal, and faults."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil

from headrace.atomic_file import write_whole
from headrace.extraction.journal import Journal, JournalEntry
from headrace.runtime.posix import file_lock
from headrace.runtime.worker_protocol import iter_rounds


def squares(argument, send):
    """Writes the square of the number that a chunk says, or suffers the fault that it says."""
    journal = Journal(Path(argument["folder"]))
    with journal.as_worker():
        for speakers in iter_rounds(argument, send):
            begun = []
            for speaker in speakers:
                speaker.report_started()
                begun.append(speaker)
            for speaker in begun:
                _suffer(speaker.payload.get("fault"), journal.folder.parent)
                speaker.report_decoded()
                speaker.send({"process": os.getpid(), "worker": argument["worker"]})
                text = str(speaker.payload["number"] ** 2)
                write_whole(journal.folder / speaker.chunk, text)
                journal.write(
                    speaker.chunk, JournalEntry(files=((speaker.chunk, len(text)),), facts=None)
                )
                speaker.report_done()


class Means:
    """A model: the mean of each colour, in bands of eight rows."""

    size = (64, 64)
    version = "1"

    def __call__(self, frames):
        return frames.float().unflatten(2, (-1, 8)).mean((3, 4)).flatten(1)


def _suffer(fault, folder):
    match fault:
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "hang":
            signal.sigwait([signal.SIGUSR1])
        case "actor":  # killed, as by Ray where memory runs out
            psutil.Process().parent().kill()
            signal.sigwait([signal.SIGUSR1])
        case "gate":  # until the test opens it
            with suppress(OSError):  # nobody listens any more
                bell = os.open(folder / "bell", os.O_WRONLY | os.O_NONBLOCK)
                os.write(bell, b".")
                os.close(bell)
            with file_lock(folder / "gate", is_shared=True, waits=True):
                pass
