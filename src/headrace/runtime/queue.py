"""Bounded queue between threads, which can end, be cancelled, and report its statistics."""

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
"""Waiting times kept per queue, the latest: 36 minutes at 30 items/s, at most 0.5 MiB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueStatistics:
    """One queue from its creation until it was drained or cancelled, or until now."""

    name: str
    capacity: int
    """Items it can hold."""
    puts: int
    gets: int
    """`puts - gets` items are inside, were dropped for newer ones, or discarded by a cancel."""
    elapsed_seconds: float
    """Length of the observation, to compare the seconds below with."""
    mean_occupancy: float
    """Time-weighted share of the capacity in use, in [0, 1]. Near 1: the consumer is the slower
    side. Near 0: the producer is."""
    depth: int
    """Items inside now."""
    max_occupancy: float
    """The largest share ever in use. Well below 1: the capacity can be smaller at no loss."""
    starved_seconds: float
    """Consumers waited for input, summed over consumers, waits in progress and the wait for the
    first item included. Near `elapsed_seconds` for one consumer: speed up the producer."""
    blocked_seconds: float
    """Producers waited for room, or for their place in the order, summed over producers. Near
    `elapsed_seconds` for one producer: speed up the consumer. Both near 0: well matched."""
    wait_ms: Distribution | None
    """How long items lay in the queue: the latency it adds. Exact, over the latest
    `WAIT_SAMPLES` items that left it; None if none did. Near capacity x the consumer's time per
    item: the queue is always full, and a smaller one would cut the latency."""


class QueueMeter:
    """Counter of `QueueStatistics`. Not thread-safe: the queue's lock guards it.

    Waits and occupancy are integrals over time, so a wait in progress counts up to now.
    `advance` must be called before any of the three levels changes.
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
        """Count one item that came in."""
        self._puts += 1
        self.depth += 1
        self._max_depth = max(self._max_depth, self.depth)

    def got(self, wait_ns: int) -> None:
        """Count one item that left after `wait_ns`."""
        self._gets += 1
        self.depth -= 1
        self._waits_ns.append(wait_ns)

    def stop(self, now_ns: int) -> None:
        """Count nothing after this moment."""
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
"""What a full queue does with a further item: its producer waits for room; or the oldest item is
dropped, so that the output is fresh."""


class Closed(Exception):  # noqa: N818 - an end, not an error
    """The producers are done and all items were taken."""


class Cancelled(Exception):  # noqa: N818 - an end, not an error
    """The queue was cancelled. Stays inside `runtime`: it ends a thread quietly."""


@dataclass(slots=True, eq=False)
class _Entry(Generic[T]):
    put_ns: int
    item: T
    instead: T | None
    takes_room: bool
    lane: int


class BoundedQueue(Generic[T]):
    """First-in first-out queue; `put` waits for room, or drops, and `get` waits for an item.

    Thread-safe, for any number of producers and consumers. `for item in queue` takes items until
    the producers are done; several threads may do so at once and share the items.
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
        """A queue of `capacity` items, open until each of `producers` has closed it.

        Args:
            capacity: Items it can hold.
            name: Its name in statistics and errors.
            producers: Number of threads that close it.
            clock: Measures the waits.
            overflow: What a full queue does with a further item.
            lanes: Equal parts of the capacity: an item is put into a lane, and finds the queue
                full when that lane is.

        Raises:
            ConfigError: a number is below 1, `overflow` is unknown, or `capacity` is not a multiple
                of `lanes`.
        """
        check_integers(1, capacity=capacity, producers=producers, lanes=lanes)
        one_of(Overflow, overflow=overflow)
        if capacity % lanes:
            raise ConfigError(
                f"queue {name!r} shares its places equally: capacity must be a multiple of lanes, "
                f"got {capacity} and {lanes}"
            )
        self._share = capacity // lanes
        self._overflow = overflow
        self._clock = clock
        self._entries: deque[_Entry[T]] = deque()
        # Of each lane, the entries that take room.
        self._with_room: list[deque[_Entry[T]]] = [deque() for _ in range(lanes)]
        self._open_producers = producers
        self._is_cancelled = False
        self._next_place = 0
        self._meter = QueueMeter(name, capacity, clock.now_ns())
        # Re-entrant, because the garbage collector may close a run, and so cancel its queues,
        # in a thread that holds this very lock.
        self._lock = threading.RLock()
        self._has_room = threading.Condition(self._lock)
        self._has_items = threading.Condition(self._lock)

    def put(
        self,
        item: T,
        *,
        place: int | None = None,
        instead: T | None = None,
        takes_room: bool = True,
        lane: int = 0,
    ) -> T | None:
        """Add an item; where the queue is full, wait or drop the oldest, by `overflow`.

        Args:
            item: The item.
            place: Number of items before this one. Producers that number their items put them in
                that order: each waits for the item before. All puts have a place, or none has.
            instead: What replaces the item if it is dropped; None: nothing does.
            takes_room: False for a small item that is never dropped, such as the replacement of a
                dropped one: it enters a full queue at once, and is not counted.
            lane: The lane it is put into.

        Returns:
            The item that was dropped; None if none was.

        Raises:
            Cancelled: The queue was cancelled, also while waiting.
            Closed: The queue was closed, also while waiting.
            ConfigError: Another item was put at this place.
        """
        with self._lock:
            must_wait = takes_room and self._overflow == "wait"
            now_ns = self._wait(
                self._has_room, lambda: self._may_put(place, must_wait, lane), producers=1
            )
            if self._is_cancelled:
                raise Cancelled
            if not self._open_producers:
                raise Closed
            self._next_place += 1
            dropped = self._add(_Entry(now_ns, item, instead, takes_room, lane))
            self._has_items.notify()
            # All of them, because only one has the next place.
            self._has_room.notify_all()
            return dropped

    def get(self, timeout_seconds: float | None = None) -> T:
        """Return the oldest item; wait while the queue is empty, for `timeout_seconds` at most.

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
        """Yield items until the producers are done.

        Raises:
            Cancelled: The queue was cancelled.
        """
        with suppress(Closed):
            while True:
                yield self.get()

    def close(self) -> None:
        """Close for one producer; after the last, `get` empties the queue, then raises Closed."""
        with self._lock:
            self._open_producers = max(0, self._open_producers - 1)
            if self._open_producers:
                return
            if not self._entries:
                self._meter.stop(self._clock.now_ns())
            self._has_items.notify_all()
            self._has_room.notify_all()

    def cancel(self) -> None:
        """Discard all items and wake all threads: every `put` and `get` raises from now on."""
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
        """Return whether it holds no item now."""
        with self._lock:
            return not self._entries

    def statistics(self) -> QueueStatistics:
        """Return the statistics so far. Sorts the waiting times: some ms when they are many."""
        with self._lock:
            self._meter.advance(self._clock.now_ns())
            return self._meter.statistics()

    def _may_put(self, place: int | None, must_wait: bool, lane: int) -> bool:
        if self._is_cancelled or not self._open_producers:
            return True
        if place is not None and place < self._next_place:
            raise ConfigError(f"place {place} is taken, the next free one is {self._next_place}")
        has_room = not must_wait or len(self._with_room[lane]) < self._share
        return has_room and place in (None, self._next_place)

    def _add(self, entry: _Entry[T]) -> T | None:
        """Append an entry; return the item that was dropped for it."""
        self._entries.append(entry)
        if not entry.takes_room:
            return None
        inside = self._with_room[entry.lane]
        oldest = inside.popleft() if len(inside) == self._share else None
        inside.append(entry)
        self._meter.depth -= oldest is not None
        self._meter.put()
        if oldest is None:
            return None
        dropped = oldest.item
        if oldest.instead is None:
            self._entries.remove(oldest)
        else:
            oldest.item, oldest.takes_room = oldest.instead, False
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
