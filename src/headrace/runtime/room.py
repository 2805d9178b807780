"""Room: places that are limited in number, taken before use and given back."""

import threading

from headrace.errors import ConfigError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import Cancelled


class Room:
    """Keeps what is held inside a limit: `take` waits until there is room for all it asks for.

    `with room: ...` cancels it at the end of the block. Thread-safe. Meant for one thread that
    takes and others that give back; takers are served in no particular order.
    """

    def __init__(self, capacity: int, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Room for `capacity` places, at least 1.

        Raises:
            ConfigError: `capacity` is below 1.
        """
        if capacity < 1:
            raise ConfigError(f"room needs a capacity >= 1, got {capacity}")
        self.capacity = capacity
        self.taken = 0
        """Places in use."""
        self.most_taken = 0
        """The most that were ever in use."""
        self._blocked_ns = 0
        self._clock = clock
        self._is_cancelled = False
        # Re-entrant for the same reason as that of BoundedQueue.
        self._changed = threading.Condition(threading.RLock())

    @property
    def blocked_seconds(self) -> float:
        """How long takers waited; long waits mean that what gives back is the slower side."""
        return self._blocked_ns / 1e9

    def take(self, places: int) -> None:
        """Take `places`; waits until they are free.

        Raises:
            ConfigError: there are not so many places at all.
            Cancelled: the room was cancelled, also while waiting.
        """
        if not 0 <= places <= self.capacity:
            raise ConfigError(f"{places} places were asked of a room of {self.capacity}")
        with self._changed:
            started_ns = self._clock.now_ns()
            self._changed.wait_for(
                lambda: self._is_cancelled or self.taken + places <= self.capacity
            )
            self._blocked_ns += self._clock.now_ns() - started_ns
            if self._is_cancelled:
                raise Cancelled
            self.taken += places
            self.most_taken = max(self.most_taken, self.taken)

    def take_at_once(self, places: int) -> bool:
        """Take `places` if they are free now; say whether they were."""
        with self._changed:
            is_free = not self._is_cancelled and self.taken + places <= self.capacity
            if is_free:
                self.taken += places
                self.most_taken = max(self.most_taken, self.taken)
            return is_free

    def give(self, places: int) -> None:
        """Give back `places` that were taken."""
        with self._changed:
            self.taken -= places
            self._changed.notify_all()

    def cancel(self) -> None:
        """Wake everybody: from now on every `take` raises."""
        with self._changed:
            self._is_cancelled = True
            self._changed.notify_all()

    def __enter__(self) -> "Room":
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
