"""What became of the items that came into a pipeline: none is lost without a cause."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowStatistics:
    """How many items came in, and how they ended: arrived = delivered + dropped + in flight.

    True at every moment. Counted in items of the source, and what a `Scatter` made more of them:
    a clip counts as the frames that end with it.
    """

    arrived: int
    delivered: int
    """The consumer took them."""
    dropped: Mapping[tuple[str, str], int]
    """(stage, cause) -> items that ended there."""
    in_flight: int
    """They are on their way; when the run is over: it ended before they did. The item at which a
    run fails is one of them."""


class FlowMeter:
    """Adds up `FlowStatistics`. Thread-safe."""

    def __init__(self) -> None:
        """Nothing has arrived."""
        self._lock = threading.Lock()
        self._arrived = self._delivered = self._in_flight = 0
        self._dropped: Counter[tuple[str, str]] = Counter()

    def arrive(self) -> None:
        """One item came in."""
        with self._lock:
            self._arrived += 1
            self._in_flight += 1

    def deliver(self, items: int) -> None:
        """So many reached the consumer."""
        with self._lock:
            self._delivered += items
            self._in_flight -= items

    def drop(self, stage: str, cause: str, items: int) -> None:
        """So many ended at a stage."""
        with self._lock:
            self._dropped[stage, cause] += items
            self._in_flight -= items

    def dropped_at(self, stage: str) -> dict[str, int]:
        """Cause -> items that ended at one stage so far."""
        dropped = self.statistics().dropped
        return {cause: items for (at, cause), items in dropped.items() if at == stage}

    def statistics(self) -> FlowStatistics:
        """Everything so far."""
        with self._lock:
            return FlowStatistics(
                arrived=self._arrived,
                delivered=self._delivered,
                dropped=dict(self._dropped),
                in_flight=self._in_flight,
            )
