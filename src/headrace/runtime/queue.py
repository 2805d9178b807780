"""Bounded queue between threads, which can be closed and cancelled, with statistics."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from headrace.errors import ConfigError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.distribution import Distribution, RingBuffer
from headrace.units import check_integers, one_of

WAIT_SAMPLES: Final = 65_536
"""Number of latest waiting times kept per queue: 36 minutes at 30 items/s, at most 0.5 MiB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueStatistics:
    """Statistics of a queue, from its creation until it was drained or cancelled, or until now."""

    name: str
    capacity: int
    """Maximum number of items in the queue."""
    puts: int
    gets: int
    """`puts - gets` items are in the queue, or were dropped for newer ones or discarded by
    `cancel`."""
    elapsed_seconds: float
    """Observed time, to compare the seconds below with."""
    mean_occupancy: float
    """Time-weighted share of the capacity in use, in [0, 1]. Near 1: the consumer is the slower
    side. Near 0: the producer is."""
    depth: int
    """Number of items in the queue now."""
    max_occupancy: float
    """Largest share of the capacity ever in use. Well below 1: the capacity can be smaller at no
    loss."""
    starved_seconds: float
    """Time that consumers waited for input, summed, including waits in progress and the wait for
    the first item. Near `elapsed_seconds` with one consumer: speed up the producer."""
    blocked_seconds: float
    """Time that producers waited for room or for their position in the order, summed. Near
    `elapsed_seconds` with one producer: speed up the consumer. Both near 0: well matched."""
    wait_ms: Distribution | None
    """Time of items in the queue, which adds to latency. Exact, over the latest `WAIT_SAMPLES`
    items that left it; None if none did. Near capacity x the consumer's time per item: the queue is
    always full, and a smaller one reduces latency."""


class QueueMeter:
    """Counter of `QueueStatistics`. Not thread-safe: the queue's lock guards it.

    Waits and occupancy are integrals over time, so a wait in progress counts up to now.
    Call `advance` before any of the three levels changes.
    """

    def __init__(self, name: str, capacity: int, now_ns: int) -> None:
        self._name = name
        self._capacity = capacity
        self._started_ns = self._now_ns = now_ns
        self._is_stopped = False
        self._max_depth = self._puts = self._gets = 0
        self._depth_ns = self._starved_ns = self._blocked_ns = 0
        self._waits_ns = RingBuffer(WAIT_SAMPLES)
        self.depth = 0
        self.waiting_consumers = 0
        self.waiting_producers = 0

    def advance(self, now_ns: int) -> None:
        """Add the time since the last call, at the current levels."""
        if self._is_stopped:
            return
        elapsed_ns = now_ns - self._now_ns
        self._now_ns = now_ns
        self._depth_ns += elapsed_ns * self.depth
        self._starved_ns += elapsed_ns * self.waiting_consumers
        self._blocked_ns += elapsed_ns * self.waiting_producers

    def put(self) -> None:
        """Count an item that entered."""
        self._puts += 1
        self.depth += 1
        self._max_depth = max(self._max_depth, self.depth)

    def got(self, wait_ns: int) -> None:
        """Count an item that left after `wait_ns`."""
        self._gets += 1
        self.depth -= 1
        self._waits_ns.append(wait_ns)

    def stop(self, now_ns: int) -> None:
        """Stop counting at this moment."""
        self.advance(now_ns)
        self._is_stopped = True

    def statistics(self) -> QueueStatistics:
        """Return the statistics up to the last `advance`."""
        elapsed_ns = self._now_ns - self._started_ns
        return QueueStatistics(
            name=self._name,
            capacity=self._capacity,
            puts=self._puts,
            gets=self._gets,
            elapsed_seconds=elapsed_ns / 1e9,
            mean_occupancy=self._depth_ns / (self._capacity * elapsed_ns) if elapsed_ns else 0.0,
            depth=self.depth,
            max_occupancy=self._max_depth / self._capacity,
            starved_seconds=self._starved_ns / 1e9,
            blocked_seconds=self._blocked_ns / 1e9,
            wait_ms=Distribution.of(self._waits_ns.values() / 1e6),
        )


T = TypeVar("T")

Overflow = Literal["wait", "drop_oldest"]
"""Policy of a full queue for a further item: its producer waits for room; or the oldest item is
dropped, so that the output is fresh."""


class Closed(Exception):  # noqa: N818 - an end, not an error
    """All producers have closed the queue and all items were taken."""


class Cancelled(Exception):  # noqa: N818 - an end, not an error
    """The queue was cancelled; ends a thread silently, inside `runtime`."""


@dataclass(slots=True, eq=False)
class _Entry(Generic[T]):
    put_ns: int
    item: T
    replacement: T | None
    takes_room: bool
    lane: int


class BoundedQueue(Generic[T]):
    """First-in first-out queue; `put` waits for room or drops an item, `get` waits for an item.

    Thread-safe, for any number of producers and consumers. `for item in queue` takes items until
    all producers have closed it; several threads may share the items in this way.
    """

    def __init__(
        self,
        capacity: int,
        name: str,
        *,
        producers: int = 1,
        clock: Clock = SYSTEM_CLOCK,
        overflow: Overflow = "wait",
        lanes: int = 1,
    ) -> None:
        """Create an empty queue, open until each producer has closed it.

        Args:
            capacity: Maximum number of items.
            name: Name in statistics and errors.
            producers: Number of threads that close it.
            clock: Clock of the statistics.
            overflow: Policy of a full queue for a further item.
            lanes: Number of equal parts of the capacity; the queue is full for an item if its lane
                is full.

        Raises:
            ConfigError: a number is below 1, `overflow` is unknown, or `capacity` is not a multiple
                of `lanes`.
        """
        check_integers(1, capacity=capacity, producers=producers, lanes=lanes)
        one_of(Overflow, overflow=overflow)
        if capacity % lanes:
            raise ConfigError(
                f"capacity of queue {name!r} must be a multiple of its lanes, got {capacity} and "
                f"{lanes}"
            )
        self._share = capacity // lanes
        self._overflow = overflow
        self._clock = clock
        self._entries: deque[_Entry[T]] = deque()
        # The entries of each lane that take room.
        self._with_room: list[deque[_Entry[T]]] = [deque() for _ in range(lanes)]
        self._open_producers = producers
        self._is_cancelled = False
        self._next_position = 0
        self._meter = QueueMeter(name, capacity, clock.now_ns())
        # Re-entrant: the garbage collector may close a run, and so cancel its queues, in a thread
        # that holds this lock.
        self._lock = threading.RLock()
        self._has_room = threading.Condition(self._lock)
        self._has_items = threading.Condition(self._lock)

    def put(
        self,
        item: T,
        *,
        position: int | None = None,
        replacement: T | None = None,
        takes_room: bool = True,
        lane: int = 0,
    ) -> T | None:
        """Add an item; if the queue is full, wait or drop the oldest item, by `overflow`.

        Args:
            item: The item.
            position: Number of items before this one, for producers that number their items: each
                put waits for the item before. Give it for all items of a queue, or for none.
            replacement: Item that takes the position of this one if it is dropped.
            takes_room: False for a small item that is never dropped, such as a replacement: it
                enters a full queue at once, and is not counted.
            lane: Index of the lane.

        Returns:
            The dropped item, if any.

        Raises:
            Cancelled: the queue is cancelled, before or while waiting.
            Closed: the queue is closed, before or while waiting.
            ConfigError: another item was put at this position.
        """
        with self._lock:
            must_wait = takes_room and self._overflow == "wait"
            now_ns = self._wait(
                self._has_room, lambda: self._may_put(position, must_wait, lane), producers=1
            )
            if self._is_cancelled:
                raise Cancelled
            if not self._open_producers:
                raise Closed
            self._next_position += 1
            dropped = self._add(_Entry(now_ns, item, replacement, takes_room, lane))
            self._has_items.notify()
            # All producers: only one has the next position.
            self._has_room.notify_all()
            return dropped

    def get(self, timeout_seconds: float | None = None) -> T:
        """Return the oldest item; wait while the queue is empty, for `timeout_seconds` at most.

        Raises:
            Cancelled: the queue is cancelled, before or while waiting.
            Closed: the queue is empty, and all producers have closed it.
            TimeoutError: there is no item in time.
        """
        with self._lock:
            now_ns = self._wait(self._has_items, self._may_get, timeout_seconds, consumers=1)
            if not self._may_get():
                raise TimeoutError
            if self._is_cancelled:
                raise Cancelled
            if not self._entries:
                raise Closed
            entry = self._entries.popleft()
            if entry.takes_room:
                self._with_room[entry.lane].popleft()
                self._meter.got(now_ns - entry.put_ns)
            if not self._entries and not self._open_producers:
                self._meter.stop(now_ns)
            self._has_room.notify_all()
            return entry.item

    def __iter__(self) -> Iterator[T]:
        """Yield items until all producers have closed the queue.

        Raises:
            Cancelled: the queue is cancelled.
        """
        with suppress(Closed):
            while True:
                yield self.get()

    def close(self) -> None:
        """Close the queue for one producer; after the last, an empty queue raises Closed."""
        with self._lock:
            self._open_producers = max(0, self._open_producers - 1)
            if self._open_producers:
                return
            if not self._entries:
                self._meter.stop(self._clock.now_ns())
            self._has_items.notify_all()
            self._has_room.notify_all()

    def cancel(self) -> None:
        """Discard all items and wake all threads: from now on every `put` and `get` raises."""
        with self._lock:
            self._meter.stop(self._clock.now_ns())
            self._is_cancelled = True
            self._entries.clear()
            for lane in self._with_room:
                lane.clear()
            self._has_items.notify_all()
            self._has_room.notify_all()

    def has_room(self) -> bool:
        """Return whether a `put` into the first lane would neither wait nor drop now."""
        with self._lock:
            return self._may_put(None, must_wait=True, lane=0)

    def is_empty(self) -> bool:
        """Return whether it has no item now."""
        with self._lock:
            return not self._entries

    def statistics(self) -> QueueStatistics:
        """Return the statistics so far. Sorts the waiting times: some ms if there are many."""
        with self._lock:
            self._meter.advance(self._clock.now_ns())
            return self._meter.statistics()

    def _may_put(self, position: int | None, must_wait: bool, lane: int) -> bool:
        if self._is_cancelled or not self._open_producers:
            return True
        if position is not None and position < self._next_position:
            raise ConfigError(
                f"position must be at least {self._next_position}, the next free one, got "
                f"{position}"
            )
        has_room = not must_wait or len(self._with_room[lane]) < self._share
        return has_room and position in (None, self._next_position)

    def _add(self, entry: _Entry[T]) -> T | None:
        """Append an entry; return the item dropped for it."""
        self._entries.append(entry)
        if not entry.takes_room:
            return None
        lane = self._with_room[entry.lane]
        oldest = lane.popleft() if len(lane) == self._share else None
        lane.append(entry)
        self._meter.depth -= oldest is not None
        self._meter.put()
        if oldest is None:
            return None
        dropped = oldest.item
        if oldest.replacement is None:
            self._entries.remove(oldest)
        else:
            oldest.item, oldest.takes_room = oldest.replacement, False
        return dropped

    def _may_get(self) -> bool:
        return bool(self._entries) or self._is_cancelled or not self._open_producers

    def _wait(
        self,
        condition: threading.Condition,
        is_ready: Callable[[], bool],
        timeout_seconds: float | None = None,
        *,
        producers: int = 0,
        consumers: int = 0,
    ) -> int:
        """Wait until `is_ready`; return the time. The wait counts for the given side."""
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
