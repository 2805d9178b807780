"""Clocks: the only code that reads the time, so that a test can pass its own."""

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol, Self


class Clock(Protocol):
    """Source of time. Thread-safe."""

    def now_ns(self) -> int:
        """Return nanoseconds since a fixed moment; never decreases. For differences only."""

    def wall_seconds(self) -> float:
        """Return seconds since 1970-01-01 UTC; may jump when the machine's clock is set."""

    def wait_until(self, condition: threading.Condition, moment_ns: int) -> None:
        """Wait in `condition`, held by the caller, until `now_ns()` is `moment_ns`.

        Also returns when the condition is notified, and may return without a reason.
        """


class SystemClock:
    """The clock of this machine."""

    def now_ns(self) -> int:
        """Return nanoseconds of the finest monotonic clock; about 50 ns a call."""
        return time.perf_counter_ns()

    def wall_seconds(self) -> float:
        """Return seconds since 1970-01-01 UTC."""
        return time.time()

    def wait_until(self, condition: threading.Condition, moment_ns: int) -> None:
        """Wait in `condition` until it is notified, or until that moment."""
        seconds = (moment_ns - self.now_ns()) / 1e9
        condition.wait(min(max(seconds, 0.0), threading.TIMEOUT_MAX))


SYSTEM_CLOCK: Final[Clock] = SystemClock()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class WallTime:
    """Conversion of a clock's moments to wall time.

    Both clocks are read once: times keep their distances when the machine's clock is set later.
    """

    epoch_ns: int
    """Unix time of moment 0 of the clock, in nanoseconds."""

    @classmethod
    def of(cls, clock: Clock) -> Self:
        """Return the conversion of a clock, read now."""
        return cls(round(clock.wall_seconds() * 1e9) - clock.now_ns())

    def at(self, moment_ns: int) -> datetime:
        """Return the wall time of a moment of `now_ns`, UTC, in microseconds."""
        return _EPOCH + timedelta(microseconds=(self.epoch_ns + moment_ns) // 1000)


def iso_text(wall: datetime) -> str:
    """Return a time as ISO 8601, of fixed length: `2026-01-31T12:00:00.250000+00:00`."""
    return wall.isoformat(timespec="microseconds")


def wall_time(unix_seconds: float) -> datetime:
    """Return the wall time of seconds since 1970-01-01 UTC, in microseconds."""
    return _EPOCH + timedelta(seconds=unix_seconds)


def processor_ns() -> int:
    """Return the processor time of this process in nanoseconds, summed over its threads.

    For differences only, without child processes; below 1 µs a call.
    """
    return time.process_time_ns()


class ThreadTimes(NamedTuple):
    """CPU time and run-queue wait of a thread over an interval, in nanoseconds."""

    cpu_ns: int
    """Time on a core."""
    core_wait_ns: int | None
    """Time in which it could run and no core was free for it; None: the system does not tell."""


class ThreadMeter:
    """CPU time and run-queue wait of the calling thread between two calls; about 10 µs a call.

    Only Linux tells the wait for a core: the run-queue wait of `/proc/PID/task/TID/schedstat`
    (kernel documentation, Scheduler Statistics). It counts a wait when it ends.
    """

    def __init__(self) -> None:
        """Start to measure."""
        self._thread, self._times = self._read()

    def take(self) -> ThreadTimes | None:
        """Return the times since the last call; None: it was another thread's."""
        (before, start), (thread, end) = (self._thread, self._times), self._read()
        self._thread, self._times = thread, end
        if thread != before:
            return None
        wait_ns = None
        if start.core_wait_ns is not None and end.core_wait_ns is not None:
            wait_ns = max(0, end.core_wait_ns - start.core_wait_ns)
        return ThreadTimes(end.cpu_ns - start.cpu_ns, wait_ns)

    def _read(self) -> tuple[int, ThreadTimes]:
        wait_ns = None
        with suppress(OSError, ValueError):
            file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
            try:
                _, waited, slices = os.read(file, 80).split()
                wait_ns = int(waited) if int(slices) else None  # all 0 where nothing is counted
            finally:
                os.close(file)
        return threading.get_native_id(), ThreadTimes(time.thread_time_ns(), wait_ns)
