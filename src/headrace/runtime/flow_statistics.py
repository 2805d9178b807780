"""Counts of a pipeline's items: each is delivered, dropped for a cause, or in flight."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowStatistics:
    """Counts of items: arrived = delivered + dropped + in flight, at every moment.

    In items of the source, and of a `Disaggregate` that makes several of one: a clip counts as the
    frames that end with it.
    """

    arrived: int
    delivered: int
    """Taken by the consumer."""
    dropped: Mapping[tuple[str, str], int]
    """(stage, cause) -> items that ended there."""
    in_flight: int
    """Between the two; after the end of the run: not finished by then. The item at which a run
    fails is one of them."""


class FlowMeter:
    """Counter of `FlowStatistics`. Thread-safe."""

    def __init__(self) -> None:
        """All counts are 0."""
        self._lock = threading.Lock()
        self._arrived = self._delivered = self._in_flight = 0
        self._dropped: Counter[tuple[str, str]] = Counter()

    def arrive(self) -> None:
        """Count one item that arrived."""
        with self._lock:
            self._arrived += 1
            self._in_flight += 1

    def deliver(self, items: int) -> None:
        """Count items that the consumer took."""
        with self._lock:
            self._delivered += items
            self._in_flight -= items

    def drop(self, stage: str, cause: str, items: int) -> None:
        """Count items that were dropped at a stage."""
        with self._lock:
            self._dropped[stage, cause] += items
            self._in_flight -= items

    def dropped_at(self, stage: str) -> dict[str, int]:
        """Return cause -> items that were dropped at one stage so far."""
        dropped = self.statistics().dropped
        return {cause: items for (name, cause), items in dropped.items() if name == stage}

    def statistics(self) -> FlowStatistics:
        """Return the counts so far."""
        with self._lock:
            return FlowStatistics(
                arrived=self._arrived,
                delivered=self._delivered,
                dropped=dict(self._dropped),
                in_flight=self._in_flight,
            )
