"""A queue of limited length between threads, that can end, be cancelled, and say how it went."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar, get_args

from headrace.errors import ConfigError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.distribution import Distribution, RingBuffer

WAIT_SAMPLES: Final = 65_536
"""Waits kept per queue, the latest ones: 36 minutes at 30 items/s, at most 0.5 MiB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueStatistics:
    """One queue from its creation until it was drained or cancelled, or until now."""

    name: str
    capacity: int
    """Items it can hold."""
    puts: int
    gets: int
    """`puts - gets` items are inside, or were dropped for newer ones or thrown away by a cancel."""
    elapsed_seconds: float
    """How long it has been watched; what the seconds below are compared with."""
    mean_occupancy: float
    """Time-weighted share of the capacity in use, in [0, 1]. Near 1: what comes after the queue
    is the slower side. Near 0: what comes before it is."""
    depth: int
    """Items inside now."""
    max_occupancy: float
    """The largest share ever in use. Well below 1: the capacity can be smaller at no loss."""
    starved_seconds: float
    """Consumers waited for input, summed over consumers, waits in progress and the wait for the
    first item included. Near `elapsed_seconds` for one consumer: speed up what comes before."""
    blocked_seconds: float
    """Producers waited for room, or for their turn, summed over producers. Near
    `elapsed_seconds` for one producer: speed up what comes after. Both near 0: well matched."""
    wait_ms: Distribution | None
    """How long items lay in the queue: the latency it adds. Exact, over the latest
    `WAIT_SAMPLES` items taken out; None when none was. Near capacity x the consumer's time per
    item: the queue is always full, and a smaller one would cut the latency."""


class QueueMeter:
    """Adds up `QueueStatistics` as things happen. Not thread-safe: the queue's lock guards it.

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
        """Accounts for the time since the last call, at the levels as they were."""
        if self._is_stopped:
            return
        elapsed_ns = now_ns - self._now_ns
        self._now_ns = now_ns
        self._depth_ns += elapsed_ns * self.depth
        self._starved_ns += elapsed_ns * self.waiting_consumers
        self._blocked_ns += elapsed_ns * self.waiting_producers

    def put(self) -> None:
        """One item came in."""
        self._puts += 1
        self.depth += 1
        self._max_depth = max(self._max_depth, self.depth)

    def got(self, wait_ns: int) -> None:
        """One item went out after `wait_ns` inside."""
        self._gets += 1
        self.depth -= 1
        self._waits_ns.append(wait_ns)

    def dropped(self) -> None:
        """One item went out of the queue to nobody."""
        self.depth -= 1

    def stop(self, now_ns: int) -> None:
        """Nothing after this moment counts."""
        self.advance(now_ns)
        self._is_stopped = True

    def statistics(self) -> QueueStatistics:
        """Everything up to the last `advance`."""
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

Overflow = Literal["wait", "drop_oldest", "drop_newest"]
"""What happens to an item that finds a queue full: it waits for room; the oldest inside makes room
for it, so that what comes out is fresh; or it is dropped itself."""


class Closed(Exception):  # noqa: N818 - an end, not an error
    """The producers are done and everything was taken."""


class Cancelled(Exception):  # noqa: N818 - an end, not an error
    """Somebody gave up the queue. Stays inside `runtime`: it ends a thread quietly."""


@dataclass(slots=True, eq=False)
class _Entry(Generic[T]):
    put_ns: int
    item: T
    instead: T | None
    takes_room: bool
    lane: int


class BoundedQueue(Generic[T]):
    """First in, first out; `put` waits for room, or drops, and `get` waits for an item.

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
        """A queue for `capacity` items, open until each of `producers` has closed it.

        Args:
            capacity: Items it can hold.
            name: What statistics and errors call it.
            producers: How many close it.
            clock: What measures.
            overflow: What an item does that finds it full.
            lanes: Who shares the places in equal parts, so that nobody takes those of another: an
                item is put in a lane, and finds the queue full when that lane is.

        Raises:
            ConfigError: `capacity` or `producers` is below 1, `overflow` is unknown, or the lanes
                have not equal parts of at least 1.
        """
        if capacity < 1 or producers < 1:
            raise ConfigError(
                f"queue {name!r} needs capacity >= 1 and producers >= 1, "
                f"got {capacity} and {producers}"
            )
        if overflow not in get_args(Overflow):
            raise ConfigError(
                f"overflow of queue {name!r} must be one of {', '.join(get_args(Overflow))}, "
                f"got {overflow!r}"
            )
        if lanes < 1 or capacity % lanes:
            raise ConfigError(
                f"queue {name!r} shares its places equally: capacity must be a multiple of lanes, "
                f"got {capacity} and {lanes}"
            )
        self._share = capacity // lanes
        self._overflow = overflow
        self._clock = clock
        self._entries: deque[_Entry[T]] = deque()
        # Those of them that take up room, for each lane.
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
        """Adds an item; one that finds the queue full waits or drops one, as `overflow` says.

        Args:
            item: What to hand over.
            place: How many items come before this one. Several producers that number their items
                thus put them in that order: each waits for its turn. All puts or none have one.
            instead: What stays in the item's place if it is dropped; None leaves nothing.
            takes_room: False for what is small and must come through, such as what stays of a
                dropped item: it enters a full queue at once, and is not counted.
            lane: Whose places it takes.

        Returns:
            The item that was dropped, this one or an older one; None when none was.

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
            # All of them, because only one knows that its turn has come.
            self._has_room.notify_all()
            return dropped

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
            if not self._entries:
                self._meter.stop(self._clock.now_ns())
            self._has_items.notify_all()
            self._has_room.notify_all()

    def cancel(self) -> None:
        """Throws away what is inside and wakes everybody, now: every `put` and `get` raises."""
        with self._lock:
            self._meter.stop(self._clock.now_ns())
            self._is_cancelled = True
            self._entries.clear()
            for lane in self._with_room:
                lane.clear()
            self._has_items.notify_all()
            self._has_room.notify_all()

    def has_room(self) -> bool:
        """Whether a `put` in the first lane neither waits nor drops; until somebody else puts."""
        with self._lock:
            return self._may_put(None, must_wait=True, lane=0)

    def is_empty(self) -> bool:
        """Whether a `get` would wait, or end, now; until somebody puts."""
        with self._lock:
            return not self._entries

    def statistics(self) -> QueueStatistics:
        """How it went so far. Sorts the kept waits: some milliseconds when they are many."""
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
        """Puts it in the last place; returns the item that was dropped for it."""
        self._entries.append(entry)
        if not entry.takes_room:
            return None
        dropped: _Entry[T] | None = None
        inside = self._with_room[entry.lane]
        if len(inside) == self._share:
            dropped = entry if self._overflow == "drop_newest" else inside.popleft()
        if dropped is not entry:
            if dropped is not None:
                self._meter.dropped()
            self._meter.put()
            inside.append(entry)
        return None if dropped is None else self._drop(dropped)

    def _drop(self, entry: _Entry[T]) -> T:
        item = entry.item
        if entry.instead is None:
            self._entries.remove(entry)
        else:
            entry.item, entry.takes_room = entry.instead, False
        return item

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
