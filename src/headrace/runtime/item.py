"""Items of a pipeline: values with their spans of work, dropped items, and their counts."""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headrace.errors import HeadraceError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span:
    """Time of a stage's work on an item, in nanoseconds of the pipeline's clock: [start, end).

    For an aggregated item, from the start of its first part to the end of its last.
    """

    stage: str
    start_ns: int
    end_ns: int
    parts_ns: int | None = None
    """Sum of the work on the parts of an aggregated item; None for other items."""

    @property
    def work_ns(self) -> int:
        """Time of work, without the time between parts."""
        return self.end_ns - self.start_ns if self.parts_ns is None else self.parts_ns


@dataclass(frozen=True, slots=True)
class DroppedItem:
    """Value of a dropped item, which keeps its position; no stage is called with it.

    A stage's function returns it to drop an item. The item's last span is of that stage.
    """

    cause: str
    """Reason in one or two words, under which the item is counted: "stale"."""
    error: HeadraceError | None = None
    """The error that caused the drop, if any."""


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """A value in a pipeline, with its spans."""

    index: int
    """0-based position in the order of the source, or of the last `Aggregate`, which renumbers
    items."""
    value: T
    """`DroppedItem` for a dropped item."""
    spans: tuple[Span, ...]
    """One per stage so far, the source first. Between the end of a span and the start of the next,
    the item waited: for its position in the order, for room, and in the queue."""
    source: int | None = 0
    """Index of its source among merged ones; None if its parts are of several sources."""
    parts: int = 1
    """Number of source items that end with it: 1 unless it is aggregated. A frame that clips
    share ends with the first of them."""

    @property
    def is_dropped(self) -> bool:
        """Whether it was dropped."""
        return isinstance(self.value, DroppedItem)


def spans_over(items: Sequence[Item[Any]]) -> tuple[Span, ...]:
    """Return one span per stage that covers the spans of all `items`, at least one."""
    by_stage = zip(*(item.spans for item in items), strict=True)
    return tuple(_cover(spans) for spans in by_stage)


def source_of(items: Iterable[Item[Any]]) -> int | None:
    """Return the source of all `items`; None if they have several."""
    sources = {item.source for item in items}
    return sources.pop() if len(sources) == 1 else None


def _cover(spans: Sequence[Span]) -> Span:
    if len(spans) == 1:
        return spans[0]
    start_ns, end_ns = min(span.start_ns for span in spans), max(span.end_ns for span in spans)
    return Span(spans[0].stage, start_ns, end_ns, sum(span.work_ns for span in spans))


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowStatistics:
    """Counts of items: arrived = delivered + dropped + in flight, at every moment.

    They count items of the source: a clip counts as the frames that end with it.
    """

    arrived: int
    delivered: int
    """Items taken by the consumer."""
    dropped: Mapping[tuple[str, str], int]
    """(stage, cause) -> items that ended there."""
    in_flight: int
    """Items between arrival and delivery; after the run, unfinished items, among them the item at
    which it failed."""


class FlowMeter:
    """Counter of `FlowStatistics`. Thread-safe."""

    def __init__(self) -> None:
        """Start at 0."""
        self._lock = threading.Lock()
        self._arrived = self._delivered = self._in_flight = 0
        self._dropped: Counter[tuple[str, str]] = Counter()

    def arrive(self) -> None:
        """Count an item that arrived."""
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
        """Return cause -> number of items dropped at a stage so far."""
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
