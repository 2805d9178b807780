"""POSIX calls: deferred SIGINT, limits of open files, file locks, and killing orphaned children.

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
    """Check that this system has file locks and process groups of POSIX.

    Args:
        request: What needs them: the start of the message.

    Raises:
        BackendError: this system is Windows.
    """
    if sys.platform == "win32":
        raise BackendError(
            f"{request} needs POSIX file locks and process groups, which Windows lacks; run it on "
            "Linux, on macOS or in WSL"
        )


@contextmanager
def deferred_sigint() -> Generator[None, None, None]:
    """Defer Ctrl-C to the end of the block, where it is raised as usual.

        with deferred_sigint():
            self._running[name] = start()  # either not started, or recorded

    Python may raise KeyboardInterrupt between any two instructions, so a started process could be
    lost before it is assigned. For short blocks. Does nothing outside the main thread, where
    KeyboardInterrupt is never raised, or if Python does not handle SIGINT.
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
"""Share of the process's open files for headrace; the rest is for other code."""
_WINDOWS_FILES: Final = 8192
"""Maximum number of open files in the C runtime of Windows."""


def max_open_files() -> int:
    """Return the number of files that headrace may keep open: half of the system's limit."""
    if sys.platform == "win32":
        return int(_WINDOWS_FILES * _FILE_SHARE)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(1, int(soft * _FILE_SHARE))


def files_to_keep_open(needed: int, num_of_file: int | None) -> int:
    """Return how many of `needed` files to keep open: at most `num_of_file`, and the limit.

    Raises:
        ConfigError: `num_of_file` is above the limit.
    """
    limit = max_open_files()
    if num_of_file is not None and num_of_file > limit:
        raise ConfigError(
            f"num_of_file must be at most {limit}, half of the system's limit of open files, got "
            f"{num_of_file}; give fewer, or raise the limit (ulimit -n)"
        )
    return min(needed, num_of_file or limit)


_LOCK_POLL_SECONDS: Final = 0.001


@contextmanager
def file_lock(
    path: Path, *, is_shared: bool = False, waits: bool = False, timeout_seconds: float = 0.0
) -> Iterator[bool]:
    """Hold a file lock inside the block; yield whether it is held.

    Args:
        path: The file to lock; created if missing. Nothing is written to it.
        is_shared: Whether other shared locks may be held at the same time.
        waits: Whether to wait without limit until the lock is free.
        timeout_seconds: Approximate seconds to wait if `waits` is False; then False is yielded.

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
            # Closing is not enough: a process forked meanwhile has the file open too.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def kill_at_hangup(pipe: int, owner: int) -> None:
    """Let the kernel kill a process when the write end of a pipe is closed everywhere.

    It needs no thread, lock or code in the process, which may be inside any library. The setting
    belongs to the open file description, so another process can make it. Linux only; does nothing
    elsewhere.

    Args:
        pipe: Read end of a pipe without data; `owner` keeps it open.
        owner: Id of the process to kill; negative: id of a process group.
    """
    if sys.platform != "linux":
        return
    with suppress(ProcessLookupError):  # it has ended
        fcntl.fcntl(pipe, fcntl.F_SETOWN, owner)
    fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
