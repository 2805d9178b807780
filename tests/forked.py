"""Functions in forks of this process, and errors of DataLoader workers."""

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

_HANG_SECONDS = 30


def forked(function: Callable[[], object]) -> int:
    """Call a function in a fork of this process; return its process ID."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the fork uses no threads
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        function()
        code = 0
    finally:
        if code:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def exit_code(pid: int) -> int:
    """Wait for a fork; return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def in_a_fork(check: Callable[[], object], hang_seconds: int = _HANG_SECONDS) -> bool:
    """Return whether `check` holds in a forked child; a child that hangs is killed."""

    def run() -> None:
        signal.alarm(hang_seconds)
        assert check()

    return exit_code(forked(run)) == 0


@contextmanager
def raised_by_a_worker(
    kind: type[Exception], match: str
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error, and clear its frames, which reference the epoch of a DataLoader.

    Workers end when their epoch is freed. PyTorch creates a reference cycle with each error of a
    worker; for an epoch in a cycle, it waits 5 s for each worker.
    """
    with pytest.raises(kind, match=match) as caught:
        yield caught
    error: BaseException | None = caught.value
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
