"""The one place that reads a clock, so that a test can hand in its own."""

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol, Self


class Clock(Protocol):
    """Tells the time. Thread-safe."""

    def now_ns(self) -> int:
        """Nanoseconds since some fixed moment; never goes back. For differences only."""

    def wall_seconds(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump when the machine's clock is set."""

    def wait_until(self, condition: threading.Condition, moment_ns: int) -> None:
        """Waits in `condition`, held by the caller, for `moment_ns` of `now_ns`.

        Comes back when the condition is notified, too, and may come back for nothing.
        """


class SystemClock:
    """The clock of this machine."""

    def now_ns(self) -> int:
        """Nanoseconds of the finest clock that never goes back; about 50 ns a call."""
        return time.perf_counter_ns()

    def wall_seconds(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return time.time()

    def wait_until(self, condition: threading.Condition, moment_ns: int) -> None:
        """Waits in `condition` until it is notified, or that moment has come."""
        seconds = (moment_ns - self.now_ns()) / 1e9
        condition.wait(min(max(seconds, 0.0), threading.TIMEOUT_MAX))


SYSTEM_CLOCK: Final[Clock] = SystemClock()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class WallTime:
    """Wall time of moments of a clock.

    Both readings are taken once: times keep their distances when the machine's clock is set later.
    """

    epoch_ns: int
    """Unix time of moment 0 of the clock, in nanoseconds."""

    @classmethod
    def of(cls, clock: Clock) -> Self:
        """Return that of a clock, read now."""
        return cls(round(clock.wall_seconds() * 1e9) - clock.now_ns())

    def at(self, moment_ns: int) -> datetime:
        """Return the wall time of a moment of `now_ns`, UTC, in microseconds."""
        return _EPOCH + timedelta(microseconds=(self.epoch_ns + moment_ns) // 1000)


def iso_text(wall: datetime) -> str:
    """Return it by ISO 8601, of one length always: `2026-01-31T12:00:00.250000+00:00`."""
    return wall.isoformat(timespec="microseconds")


def wall_time(unix_seconds: float) -> datetime:
    """Return the wall time of seconds since 1970-01-01 UTC, in microseconds."""
    return _EPOCH + timedelta(seconds=unix_seconds)


def processor_ns() -> int:
    """Processor time of this process, all its threads added up, in nanoseconds; below 1 µs a call.

    For differences only. Processes that this one started are not in it.
    """
    return time.process_time_ns()
