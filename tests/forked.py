"""Functions in forks of this process, and errors of the workers of a DataLoader."""

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
    """Call a function in a fork of this process, which ends with it; return its identifier."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it lacks threads: it uses none
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
    """Return whether `check` holds in a forked child; one that hangs is ended."""

    def run() -> None:
        signal.alarm(hang_seconds)
        assert check()

    return exit_code(forked(run)) == 0


@contextmanager
def raised_by_a_worker(
    kind: type[Exception], match: str
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error, and let go of what its frames hold, as the epoch of a DataLoader.

    Workers end at once when their epoch is let go of. PyTorch makes a ring of each error of a
    worker; of an epoch in a ring, each worker is waited for in vain, for 5 s.
    """
    with pytest.raises(kind, match=match) as caught:
        yield caught
    error: BaseException | None = caught.value
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
