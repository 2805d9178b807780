"""What travels through a pipeline: items, when they were worked on, and how some of them end."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headrace.errors import HeadraceError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span:
    """When a stage worked on an item, in nanoseconds of the pipeline's clock: [start, end).

    Of an item that was gathered: from the start with its first part to the end with its last.
    """

    stage: str
    start_ns: int
    end_ns: int
    parts_ns: int | None = None
    """Work on the parts of a gathered item, added up; None for an item in one piece."""

    @property
    def work_ns(self) -> int:
        """How long it was worked on: without the time between its parts."""
        return self.end_ns - self.start_ns if self.parts_ns is None else self.parts_ns


@dataclass(frozen=True, slots=True)
class DroppedItem:
    """The value of an item that ended on its way; it keeps its place, and no stage sees it.

    A stage's function returns one to end an item. The stage that did is the last of its spans.
    """

    cause: str
    """Why, in a word or two, as it is counted: "stale"."""
    error: HeadraceError | None = None
    """What went wrong, where something did."""


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """A value on its way through a pipeline, and when each stage worked on it."""

    index: int
    """Its place in the order of the stage it comes from, from 0: that of the source, until items
    are gathered or scattered and numbered anew."""
    value: T
    """`DroppedItem` for an item that ended."""
    spans: tuple[Span, ...]
    """One per stage so far, the source first. From the end of one span to the start of the next
    the item waited: for its turn, for room, and in the queue."""
    source: int | None = 0
    """Which of several merged sources it is from; None: it was gathered from more than one."""
    parts: int = 1
    """Items that end with it: 1, unless it was gathered. Of clips that overlap, each ends only the
    frames that no later one needs."""

    @property
    def is_dropped(self) -> bool:
        """It ended on its way."""
        return isinstance(self.value, DroppedItem)


def spans_over(items: Sequence[Item[Any]]) -> tuple[Span, ...]:
    """One span for each stage, that covers those of all `items`; at least one, of one pipeline."""
    by_stage = zip(*(item.spans for item in items), strict=True)
    return tuple(_covering(spans) for spans in by_stage)


def source_of(items: Iterable[Item[Any]]) -> int | None:
    """The source that all `items` are from; None where they are from several."""
    sources = {item.source for item in items}
    return sources.pop() if len(sources) == 1 else None


def _covering(spans: Sequence[Span]) -> Span:
    if len(spans) == 1:
        return spans[0]
    start_ns, end_ns = min(span.start_ns for span in spans), max(span.end_ns for span in spans)
    return Span(spans[0].stage, start_ns, end_ns, sum(span.work_ns for span in spans))
