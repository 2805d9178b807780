"""The one place that reads a clock, so that a test can hand in its own."""

import time
from typing import Final, Protocol


class Clock(Protocol):
    """Tells the time. Thread-safe."""

    def now_ns(self) -> int:
        """Nanoseconds since some fixed moment; never goes back. For differences only."""

    def wall_seconds(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump when the machine's clock is set."""


class SystemClock:
    """The clock of this machine."""

    def now_ns(self) -> int:
        """Nanoseconds of the finest clock that never goes back; about 50 ns a call."""
        return time.perf_counter_ns()

    def wall_seconds(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return time.time()


SYSTEM_CLOCK: Final[Clock] = SystemClock()
