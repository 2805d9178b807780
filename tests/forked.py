"""A check that is made in a forked child, and errors of the workers of a DataLoader."""

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

_HANG_SECONDS = 30


def in_a_fork(check: Callable[[], object]) -> bool:
    """Return whether `check` holds in a forked child; one that hangs is ended."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(_HANG_SECONDS)
        holds = False
        try:
            holds = bool(check())
        finally:
            os._exit(0 if holds else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


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
