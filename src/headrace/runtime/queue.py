"""A queue of limited length between threads, that can end, be cancelled, and say how it went."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

from headrace.errors import ConfigError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.statistics import QueueMeter, QueueStatistics

T = TypeVar("T")


class Closed(Exception):  # noqa: N818 - an end, not an error
    """The producers are done and everything was taken."""


class Cancelled(Exception):  # noqa: N818 - an end, not an error
    """Somebody gave up the queue. Stays inside `runtime`: it ends a thread quietly."""


class BoundedQueue(Generic[T]):
    """First in, first out; `put` waits for room and `get` waits for an item.

    Thread-safe, for any number of producers and consumers. `for item in queue` takes items until
    the producers are done; several threads may do so at once and share the items.
    """

    def __init__(
        self, capacity: int, name: str, *, producers: int = 1, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """A queue for `capacity` items, open until each of `producers` has closed it.

        Raises:
            ConfigError: `capacity` or `producers` is below 1.
        """
        if capacity < 1 or producers < 1:
            raise ConfigError(
                f"queue {name!r} needs capacity >= 1 and producers >= 1, "
                f"got {capacity} and {producers}"
            )
        self._capacity = capacity
        self._clock = clock
        self._items: deque[tuple[int, T]] = deque()  # (when it was put, item)
        self._open_producers = producers
        self._is_cancelled = False
        self._next_place = 0
        self._meter = QueueMeter(name, capacity, clock.now_ns())
        # Re-entrant, because the garbage collector may close a run, and so cancel its queues,
        # in a thread that holds this very lock.
        self._lock = threading.RLock()
        self._has_room = threading.Condition(self._lock)
        self._has_items = threading.Condition(self._lock)

    def put(self, item: T, *, place: int | None = None) -> None:
        """Adds an item; waits while the queue is full.

        Args:
            item: What to hand over.
            place: How many items come before this one. Several producers that number their items
                thus put them in that order: each waits for its turn. All puts or none have one.

        Raises:
            Cancelled: The queue was cancelled, also while waiting.
            Closed: The queue was closed, also while waiting.
            ConfigError: Another item was put at this place.
        """
        with self._lock:
            now_ns = self._wait(self._has_room, lambda: self._may_put(place), producers=1)
            if self._is_cancelled:
                raise Cancelled
            if not self._open_producers:
                raise Closed
            self._items.append((now_ns, item))
            self._next_place += 1
            self._meter.put()
            self._has_items.notify()
            # All of them, because only one knows that its turn has come.
            self._has_room.notify_all()

    def get(self, timeout_seconds: float | None = None) -> T:
        """Takes the oldest item; waits while the queue is empty, or as long as it is told to.

        Raises:
            Cancelled: The queue was cancelled, also while waiting.
            Closed: The queue is empty and its producers are done.
            TimeoutError: No item came in time.
        """
        with self._lock:
            now_ns = self._wait(self._has_items, self._may_get, timeout_seconds, consumers=1)
            if not self._may_get():
                raise TimeoutError
            if self._is_cancelled:
                raise Cancelled
            if not self._items:
                raise Closed
            put_ns, item = self._items.popleft()
            self._meter.got(now_ns - put_ns)
            if not self._items and not self._open_producers:
                self._meter.stop(now_ns)
            self._has_room.notify_all()
            return item

    def __iter__(self) -> Iterator[T]:
        """Takes items until the producers are done.

        Raises:
            Cancelled: The queue was cancelled.
        """
        with suppress(Closed):
            while True:
                yield self.get()

    def close(self) -> None:
        """One producer is done. After the last one, `get` hands out what is left, then ends."""
        with self._lock:
            self._open_producers = max(0, self._open_producers - 1)
            if self._open_producers:
                return
            if not self._items:
                self._meter.stop(self._clock.now_ns())
            self._has_items.notify_all()
            self._has_room.notify_all()

    def cancel(self) -> None:
        """Throws away what is inside and wakes everybody, now: every `put` and `get` raises."""
        with self._lock:
            self._meter.stop(self._clock.now_ns())
            self._is_cancelled = True
            self._items.clear()
            self._has_items.notify_all()
            self._has_room.notify_all()

    def statistics(self) -> QueueStatistics:
        """How it went so far. Sorts the kept waits: some milliseconds when they are many."""
        with self._lock:
            self._meter.advance(self._clock.now_ns())
            return self._meter.statistics()

    def _may_put(self, place: int | None) -> bool:
        if self._is_cancelled or not self._open_producers:
            return True
        if place is not None and place < self._next_place:
            raise ConfigError(f"place {place} is taken, the next free one is {self._next_place}")
        return len(self._items) < self._capacity and place in (None, self._next_place)

    def _may_get(self) -> bool:
        return bool(self._items) or self._is_cancelled or not self._open_producers

    def _wait(
        self,
        condition: threading.Condition,
        is_ready: Callable[[], bool],
        timeout_seconds: float | None = None,
        *,
        producers: int = 0,
        consumers: int = 0,
    ) -> int:
        """Waits until it is ready and returns the time; the wait counts for who waited."""
        meter = self._meter
        now_ns = self._clock.now_ns()
        meter.advance(now_ns)
        if not is_ready():
            meter.waiting_producers += producers
            meter.waiting_consumers += consumers
            try:
                condition.wait_for(is_ready, timeout_seconds)
            finally:
                now_ns = self._clock.now_ns()
                meter.advance(now_ns)
                meter.waiting_producers -= producers
                meter.waiting_consumers -= consumers
        return now_ns
