"""Items of a pipeline: a value, the spans of work on it, and dropped items."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headrace.errors import HeadraceError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span:
    """When a stage worked on an item, in nanoseconds of the pipeline's clock: [start, end).

    Of an aggregated item: from the start with its first part to the end with its last.
    """

    stage: str
    start_ns: int
    end_ns: int
    parts_ns: int | None = None
    """Work on the parts of an aggregated item, summed; None for other items."""

    @property
    def work_ns(self) -> int:
        """Time of work, without the time between parts."""
        return self.end_ns - self.start_ns if self.parts_ns is None else self.parts_ns


@dataclass(frozen=True, slots=True)
class DroppedItem:
    """Value of a dropped item, which keeps its place; no stage is called with it.

    A stage's function returns one to drop an item. That stage is the last of the item's spans.
    """

    cause: str
    """Why, in a word or two, as it is counted: "stale"."""
    error: HeadraceError | None = None
    """The error behind it, where there is one."""


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """A value in a pipeline, and when each stage worked on it."""

    index: int
    """0-based place in the order of the stage it comes from: that of the source, until an
    `Aggregate` or `Disaggregate` numbers items anew."""
    value: T
    """`DroppedItem` for a dropped item."""
    spans: tuple[Span, ...]
    """One per stage so far, the source first. Between the end of one span and the start of the
    next the item waited: for its place in the order, for room, and in the queue."""
    source: int | None = 0
    """Index of its source among several merged ones; None: it has parts of more than one."""
    parts: int = 1
    """Items that end with it: 1, unless it is aggregated. Of clips that overlap, each ends only the
    frames that no later clip needs."""

    @property
    def is_dropped(self) -> bool:
        """Whether it was dropped."""
        return isinstance(self.value, DroppedItem)


def spans_over(items: Sequence[Item[Any]]) -> tuple[Span, ...]:
    """Return one span per stage, covering those of all `items`; one or more, of one pipeline."""
    by_stage = zip(*(item.spans for item in items), strict=True)
    return tuple(_cover(spans) for spans in by_stage)


def source_of(items: Iterable[Item[Any]]) -> int | None:
    """Return the source of all `items`; None where they have several."""
    sources = {item.source for item in items}
    return sources.pop() if len(sources) == 1 else None


def _cover(spans: Sequence[Span]) -> Span:
    if len(spans) == 1:
        return spans[0]
    start_ns, end_ns = min(span.start_ns for span in spans), max(span.end_ns for span in spans)
    return Span(spans[0].stage, start_ns, end_ns, sum(span.work_ns for span in spans))
