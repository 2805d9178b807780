"""End of a child process at that of its parent, by the kernel: after SIGKILL, too."""

import fcntl
import os
import resource
import signal
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType

from headrace.errors import ConfigError


@contextmanager
def held_interrupts() -> Generator[None, None, None]:
    """Hold a Ctrl-C back until the block is left, where it is then raised as ever.

        with held_interrupts():
            self._running[name] = start()  # either not begun, or known

    Python raises it between any two instructions: a process that was started a moment ago would be
    nobody's. For short blocks; in other threads than the main one, where it is never raised, and
    where somebody has Python do nothing about it, this does nothing.
    """
    handler = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or not callable(handler):
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if heard:
            handler(*heard[-1])


_OURS = 0.5
"""Of the files that may be open, the rest is left to everything else in the process."""


def most_open_files() -> int:
    """Return how many files headrace may keep open: half of what the system allows."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(1, int(soft * _OURS))


def files_to_keep_open(needed: int, num_of_file: int | None) -> int:
    """Return how many of the `needed` files stay open: all, or as many as told or allowed.

    Raises:
        ConfigError: more than the system allows are asked for.
    """
    most = most_open_files()
    if num_of_file is not None and num_of_file > most:
        raise ConfigError(
            f"num_of_file={num_of_file} files were to stay open, the system allows this process "
            f"{most} besides its others; ask for fewer, or raise the limit (ulimit -n)"
        )
    return min(needed, num_of_file or most)


@contextmanager
def file_lock(path: Path, *, is_shared: bool = False, waits: bool = False) -> Iterator[bool]:
    """Hold a lock while the block runs; yield whether it is held.

    Args:
        path: The file that is locked; made if it is missing. Nothing is written to it.
        is_shared: Whether others may hold it too, if they share it as well.
        waits: Whether to wait until it is free; else it is not held where another process has it.

    Raises:
        OSError: the file cannot be made, or its file system knows no locks.
    """
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        try:
            fcntl.flock(number, kind if waits else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(number)


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
