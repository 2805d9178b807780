"""What a bounded queue saw, as a value, and how each number is read."""

from dataclasses import dataclass
from typing import Final

from headrace.runtime.distribution import Distribution
from headrace.runtime.recent import Recent

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
        self._waits_ns = Recent(WAIT_SAMPLES)
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
