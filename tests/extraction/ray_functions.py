"""Functions of child processes on a test cluster: a small worker with a journal, and faults."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil

from headrace.atomic_file import write_whole
from headrace.extraction.journal import Journal, JournalEntry
from headrace.runtime.posix import file_lock
from headrace.runtime.worker_pool import iter_rounds


def squares(argument, send):
    """Write the square of the number in a chunk's payload, or cause the fault in it."""
    journal = Journal(Path(argument["folder"]))
    with journal.as_worker():
        for reporters in iter_rounds(argument, send):
            started = []
            for reporter in reporters:
                reporter.report_started()
                started.append(reporter)
            for reporter in started:
                _cause(reporter.payload.get("fault"), journal.folder.parent)
                reporter.report_decoded()
                reporter.send({"process": os.getpid(), "worker": argument["worker"]})
                text, chunk = str(reporter.payload["number"] ** 2), reporter.chunk
                write_whole(journal.folder / chunk, text)
                journal.write(chunk, JournalEntry(files=((chunk, len(text)),), facts=None))
                reporter.report_done()


class Means:
    """Model of the mean of each color, in bands of eight rows."""

    size = (64, 64)
    version = "1"

    def __call__(self, frames):
        return frames.float().unflatten(2, (-1, 8)).mean((3, 4)).flatten(1)


def _cause(fault, folder):
    match fault:
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "hang":
            signal.sigwait([signal.SIGUSR1])
        case "actor":  # killed, as Ray does when memory runs out
            psutil.Process().parent().kill()
            signal.sigwait([signal.SIGUSR1])
        case "gate":  # blocks until the test opens it
            with suppress(OSError):  # the test has ended
                bell = os.open(folder / "bell", os.O_WRONLY | os.O_NONBLOCK)
                os.write(bell, b".")
                os.close(bell)
            with file_lock(folder / "gate", is_shared=True, waits=True):
                pass
