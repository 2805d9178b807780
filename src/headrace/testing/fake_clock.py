"""Fake clock for tests."""

import threading


class FakeClock:
    """A `headrace.runtime.clock.Clock` that moves by `advance` and by waits. Thread-safe."""

    def __init__(self, *, now_ns: int = 0, wall_seconds: float = 1_700_000_000.0) -> None:
        self._lock = threading.Lock()
        self._started_ns = now_ns
        self._now_ns = now_ns
        self._started_wall_seconds = wall_seconds

    def now_ns(self) -> int:
        """Return the time in nanoseconds."""
        with self._lock:
            return self._now_ns

    def wall_seconds(self) -> float:
        """Return the wall time, which moves with `now_ns`."""
        return self._started_wall_seconds + (self.now_ns() - self._started_ns) / 1e9

    def wait_until(self, condition: threading.Condition, moment_ns: int) -> None:
        """Move to `moment_ns` and return at once."""
        with self._lock:
            self._now_ns = max(self._now_ns, moment_ns)

    def advance(self, seconds: float) -> None:
        """Move both readings forward, rounded to whole nanoseconds.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError(f"seconds must be >= 0, got {seconds}: this clock never goes back")
        with self._lock:
            self._now_ns += round(seconds * 1e9)
