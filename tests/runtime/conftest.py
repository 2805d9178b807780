"""Tests of threads and processes fail if they hang."""

import signal
from collections.abc import Iterator

import pytest

HANGS_SECONDS = 120
"""Far longer than any test takes, also on a busy machine."""


@pytest.fixture(autouse=True)
def ends_in_time() -> Iterator[None]:
    """Fail a test that hangs, and again if it hangs while it ends."""

    def fail(number: int, frame: object) -> None:
        pytest.fail(f"did not end within {HANGS_SECONDS} s")

    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, HANGS_SECONDS, HANGS_SECONDS)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
