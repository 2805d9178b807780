"""POSIX calls: deferred SIGINT, limits of open files, file locks, children that end with a parent.

On Windows, which lacks `fcntl` and `resource`, `check_posix` raises BackendError before each use.
"""

import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import Final

from headrace.errors import BackendError, ConfigError

if sys.platform != "win32":
    import fcntl
    import resource


def check_posix(request: str) -> None:
    """Check that this system locks files and groups processes as POSIX does.

    Args:
        request: What needs it, to begin the message with.

    Raises:
        BackendError: this system is Windows.
    """
    if sys.platform == "win32":
        raise BackendError(
            f"{request} needs file locks and process groups of POSIX, which Windows does not have; "
            "run it on Linux, on macOS or in WSL"
        )


@contextmanager
def deferred_sigint() -> Generator[None, None, None]:
    """Defer a Ctrl-C to the end of the block, where it is raised as usual.

        with deferred_sigint():
            self._running[name] = start()  # either not started, or known

    Python raises KeyboardInterrupt between any two instructions: without this, a process that has
    just started could be in no variable. For short blocks. Does nothing in threads other than the
    main one, where it is never raised, and where Python does not handle SIGINT.
    """
    handler = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or not callable(handler):
        yield
        return
    deferred: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: deferred.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if deferred:
            handler(*deferred[-1])


_FILE_SHARE = 0.5
"""Share of the files that this process may open; the rest is left to other code in it."""
_WINDOWS_FILES: Final = 8192
"""Files that the C runtime of Windows opens at most."""


def max_open_files() -> int:
    """Return how many files headrace may keep open: half of the system's limit."""
    if sys.platform == "win32":
        return int(_WINDOWS_FILES * _FILE_SHARE)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(1, int(soft * _FILE_SHARE))


def files_to_keep_open(needed: int, num_of_file: int | None) -> int:
    """Return how many of the `needed` files stay open: at most `num_of_file`, and the limit.

    Raises:
        ConfigError: `num_of_file` is above the limit.
    """
    limit = max_open_files()
    if num_of_file is not None and num_of_file > limit:
        raise ConfigError(
            f"num_of_file={num_of_file} files were to stay open, the system allows this process "
            f"{limit} besides its others; ask for fewer, or raise the limit (ulimit -n)"
        )
    return min(needed, num_of_file or limit)


_LOCK_POLL_SECONDS: Final = 0.001


@contextmanager
def file_lock(
    path: Path, *, is_shared: bool = False, waits: bool = False, timeout_seconds: float = 0.0
) -> Iterator[bool]:
    """Hold a lock while the block runs; yield whether it is held.

    Args:
        path: The file to lock; created where missing. Nothing is written to it.
        is_shared: Whether other shared locks may be held at the same time.
        waits: Whether to wait until it is free; else False is yielded where it is not.
        timeout_seconds: Seconds to wait, about, where `waits` is False.

    Raises:
        BackendError: this system is Windows.
        OSError: the file cannot be created, or its file system has no locks.
    """
    check_posix(f"the lock {path}")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        operation = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        operation = operation if waits else operation | fcntl.LOCK_NB
        remaining = 1 + round(timeout_seconds / _LOCK_POLL_SECONDS)
        while remaining:
            try:
                fcntl.flock(descriptor, operation)
                break
            except BlockingIOError:
                remaining -= 1
                if remaining:
                    Event().wait(_LOCK_POLL_SECONDS)
        try:
            yield remaining > 0
        finally:
            # Closing is not enough: a process that was forked meanwhile has the file open too.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def kill_at_hangup(pipe: int, owner: int) -> None:
    """Have the kernel kill a process when the other end of a pipe is closed everywhere.

    It needs no thread, no lock and no code of the process, which may be inside any library. The
    setting belongs to the pipe's open end, so another process can make it. Linux only; elsewhere
    nothing is done.

    Args:
        pipe: The read end, on which nothing ever arrives; `owner` keeps it open.
        owner: Id of the process to kill; negative: of a process group.
    """
    if sys.platform != "linux":
        return
    with suppress(ProcessLookupError):  # it has ended
        fcntl.fcntl(pipe, fcntl.F_SETOWN, owner)
    fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
