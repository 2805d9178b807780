"""Clocks: the only code that reads the time, so that tests can replace it."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol, Self


class Clock(Protocol):
    """Source of time. Thread-safe."""

    def now_ns(self) -> int:
        """Return nanoseconds since an arbitrary moment; never decreases. For differences only."""

    def wall_seconds(self) -> float:
        """Return seconds since 1970-01-01 UTC; jumps when the machine's clock is set."""

    def wait_until(self, condition: threading.Condition, moment_ns: int) -> None:
        """Wait in `condition`, held by the caller, until `now_ns()` is `moment_ns`.

        Also returns when the condition is notified, and may return spuriously.
        """


class SystemClock:
    """The clock of this machine."""

    def now_ns(self) -> int:
        """Return nanoseconds of the finest monotonic clock; takes about 50 ns."""
        return time.perf_counter_ns()

    def wall_seconds(self) -> float:
        """Return seconds since 1970-01-01 UTC."""
        return time.time()

    def wait_until(self, condition: threading.Condition, moment_ns: int) -> None:
        """Wait in `condition` until it is notified, or until `moment_ns`."""
        seconds = (moment_ns - self.now_ns()) / 1e9
        condition.wait(min(max(seconds, 0.0), threading.TIMEOUT_MAX))


SYSTEM_CLOCK: Final[Clock] = SystemClock()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class WallTime:
    """Conversion of a clock's moments to wall time.

    Both clocks are read once, so differences stay right if the machine's clock is set later.
    """

    epoch_ns: int
    """Unix time of moment 0 of the clock, in nanoseconds."""

    @classmethod
    def of(cls, clock: Clock) -> Self:
        """Return the conversion of a clock, read now."""
        return cls(round(clock.wall_seconds() * 1e9) - clock.now_ns())

    def at(self, moment_ns: int) -> datetime:
        """Return the wall time of a moment of `now_ns`, UTC, to the microsecond."""
        return _EPOCH + timedelta(microseconds=(self.epoch_ns + moment_ns) // 1000)


def iso_text(wall: datetime) -> str:
    """Return a time as ISO 8601, of fixed length: `2026-01-31T12:00:00.250000+00:00`."""
    return wall.isoformat(timespec="microseconds")


def wall_time(unix_seconds: float) -> datetime:
    """Return the wall time of seconds since 1970-01-01 UTC, to the microsecond."""
    return _EPOCH + timedelta(seconds=unix_seconds)


def processor_ns() -> int:
    """Return the processor time of this process in nanoseconds, summed over its threads.

    For differences only; without child processes. Takes below 1 µs.
    """
    return time.process_time_ns()


class ThreadTimes(NamedTuple):
    """CPU time and run-queue wait of a thread over an interval, in nanoseconds."""

    cpu_ns: int
    """Time on a core."""
    core_wait_ns: int | None
    """Time in which it was runnable and no core was free; None: not known on this system."""


_SHORT_NS: Final = 20_000
"""Below this time off the cores, the run-queue wait is not read; the next reading includes it."""


class ThreadMeter:
    """CPU time and run-queue wait of the calling thread between two calls.

    The wait is known on Linux only, from `/proc/PID/task/TID/schedstat` (kernel documentation,
    Scheduler Statistics), which counts a wait when it ends. A call takes 1 µs if the thread ran all
    the time, else 10 µs.
    """

    def __init__(self) -> None:
        """Start measuring."""
        self._thread = 0
        self._waited_ns: int | None = None
        self.take()

    def take(self) -> ThreadTimes | None:
        """Return the times since the last call; None if another thread made it."""
        thread = threading.get_native_id()
        if thread != self._thread:
            self._thread = thread
            self._now_ns, self._cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
            self._waited_ns = self._read()
            return None
        now_ns, cpu_ns, waited_ns = time.perf_counter_ns(), time.thread_time_ns(), self._waited_ns
        spent_ns, worked_ns = now_ns - self._now_ns, cpu_ns - self._cpu_ns
        self._now_ns, self._cpu_ns = now_ns, cpu_ns
        if waited_ns is None:
            return ThreadTimes(worked_ns, None)
        if spent_ns - worked_ns < _SHORT_NS:
            return ThreadTimes(worked_ns, 0)
        self._waited_ns = self._read()
        wait_ns = None if self._waited_ns is None else max(0, self._waited_ns - waited_ns)
        return ThreadTimes(worked_ns, wait_ns)

    def _read(self) -> int | None:
        turns = CoreTurns.of_thread(self._thread)
        return None if turns is None else turns.waited_ns


class EndedThreads:
    """CPU time and run-queue waits of several threads, each added at its end. Thread-safe."""

    def __init__(self, count: int) -> None:
        """Expect `count` threads."""
        self._count = count
        self._times: list[ThreadTimes] = []

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Add the calling thread's times, from its start to the end of the block."""
        try:
            yield
        finally:
            turns = CoreTurns.of_thread(threading.get_native_id())
            waited_ns = None if turns is None else turns.waited_ns
            self._times.append(ThreadTimes(time.thread_time_ns(), waited_ns))

    def seconds(self) -> dict[str, float | None]:
        """Return the sums `cpu_seconds` and `core_wait_seconds`; None until known."""
        times = [*self._times]
        waits = [thread.core_wait_ns for thread in times if thread.core_wait_ns is not None]
        has_ended = len(times) >= self._count
        return {
            "cpu_seconds": sum(thread.cpu_ns for thread in times) / 1e9 if has_ended else None,
            "core_wait_seconds": sum(waits) / 1e9 if len(waits) >= self._count else None,
        }


class CoreTurns(NamedTuple):
    """The kernel's `schedstat` of one thread; counts grow when a turn ends."""

    worked_ns: int
    waited_ns: int
    """Time in which it was runnable and no core was free."""
    turns: int
    """How often it was scheduled on a core."""

    @classmethod
    def of_thread(cls, native_id: int) -> "CoreTurns | None":
        """Return the counts of a thread of this process; takes about 8 µs.

        None: the thread has ended, or the system does not count.
        """
        with suppress(OSError, ValueError, TypeError):
            file = os.open(f"/proc/self/task/{native_id}/schedstat", os.O_RDONLY)
            try:
                counts = cls(*map(int, os.read(file, 80).split()))
            finally:
                os.close(file)
            return counts if counts.turns else None  # all 0 if nothing is counted
        return None


def thread_sleeps(native_id: int) -> bool:
    """Return whether a thread of this process sleeps; takes about 10 µs.

    Known on Linux only, from the state in `/proc/PID/task/TID/stat`; False elsewhere.
    """
    with suppress(OSError):
        file = os.open(f"/proc/self/task/{native_id}/stat", os.O_RDONLY)
        try:
            return os.read(file, 80).rpartition(b") ")[2][:1] == b"S"
        finally:
            os.close(file)
    return False


def thread_cpu_ns() -> int:
    """Return the CPU time of the calling thread in nanoseconds; takes below 1 µs."""
    return time.thread_time_ns()


def offer_interpreter() -> None:
    """Release the GIL once, so that a waiting thread can run."""
    time.sleep(0)


def this_thread() -> int:
    """Return Python's identifier of the calling thread, which a later thread may reuse."""
    return threading.get_ident()


def this_thread_of_system() -> int:
    """Return the system's identifier of the calling thread."""
    return threading.get_native_id()
