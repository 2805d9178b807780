"""End of a child process at that of its parent, by the kernel: after SIGKILL, too."""

import fcntl
import os
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing import parent_process
from multiprocessing.connection import wait


def kill_at_hangup(pipe: int, owner: int) -> None:
    """Have the kernel kill a process when nobody holds the other end of a pipe any more.

    It needs no thread, no lock and no word of the process, which may be inside any library. The
    order belongs to the pipe's open end, so another process can give it. On Linux alone: elsewhere
    nothing is done.

    Args:
        pipe: The end that is read, though nothing is ever written; `owner` keeps it open.
        owner: Id of the process; negative, of a process group.
    """
    if sys.platform != "linux":
        return
    with suppress(ProcessLookupError):  # it has ended
        fcntl.fcntl(pipe, fcntl.F_SETOWN, owner)
    fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def end_with_parent() -> None:
    """End this process of `multiprocessing` when its parent has, however that ended."""
    parent = parent_process()
    assert parent is not None
    sentinel = parent.sentinel
    kill_at_hangup(sentinel, os.getpid())

    def watch(timeout_seconds: float | None = None) -> None:
        if wait([sentinel], timeout_seconds):
            os._exit(1)

    watch(0)  # it may have ended before the kernel was asked
    if sys.platform != "linux":
        threading.Thread(target=watch, name="headrace-parent", daemon=True).start()
