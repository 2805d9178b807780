"""No test of threads and processes hangs."""

import signal
from collections.abc import Iterator

import pytest

HANGS_SECONDS = 120
"""Far above what any test takes, also on a busy machine."""


@pytest.fixture(autouse=True)
def ends_in_time() -> Iterator[None]:
    """Fails a test that hangs, wherever it waits, and whatever it then waits for to end."""

    def fail(number: int, frame: object) -> None:
        pytest.fail(f"did not end within {HANGS_SECONDS} s")

    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, HANGS_SECONDS, HANGS_SECONDS)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
