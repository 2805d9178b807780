"""Items and stages of a pipeline: one to one, and many to one by groups; with their counters."""

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from headrace.errors import HeadraceError
from headrace.runtime.synchronization import CapacityLimiter
from headrace.units import check_integers, one_of

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


INCOMPLETE: Final = "incomplete"
"""Cause of a drop: the items do not fill a group."""


@dataclass(frozen=True, slots=True)
class Group(Generic[T]):
    """Items that are passed on together, or dropped because they do not fill a group."""

    items: Sequence[Item[T]]
    """At least one, in order."""
    parts: int
    """Sum of `parts` of its items that are in no earlier group. A frame that two clips share ends
    with the first of them, so each item ends once."""
    cause: str | None = None
    """Why the items are dropped; None: they are passed on."""


class Grouping(Protocol[T]):
    """Forms groups. Called in one thread, with items in their order."""

    def add(self, item: Item[T]) -> Iterator[Group[T]]:
        """Yield the groups that this item completes."""

    def flush(self) -> Iterator[Group[T]]:
        """Yield the groups of the remaining items, after the last item."""


@dataclass(slots=True, eq=False)
class _Series(Generic[T]):
    """Items of one key that a later group may need."""

    items: deque[Item[T]] = field(default_factory=deque)
    skip: int = 0
    """Items to skip before the next group starts; above the length of `items` if `hop` is large."""
    fresh: int = 0
    """Number of last items of `items` that are in no group yet."""
    parts: int = 0
    """Sum of `parts` of the fresh items."""


@dataclass(kw_only=True, eq=False)
class SlidingWindows(Generic[T]):
    """Groups of `length` items, `stride` apart; a group starts every `hop` items.

    `SlidingWindows(length=8)` forms batches of 8. `SlidingWindows(length=16, stride=2, hop=16,
    rest="drop")` forms clips of every second item, each of which shares half of its items with the
    next. The object has the state of a run, so each run needs a new one.
    """

    length: int
    stride: int = 1
    """1 means consecutive."""
    hop: int | None = None
    """Items from the start of a group to the start of the next; None: no overlap and no gap."""
    key: Callable[[Item[T]], Hashable] = lambda item: None
    """Key of an item; a group has items of one key: `lambda item: item.source` groups by source."""
    breaks: Callable[[Item[T], Item[T]], bool] = lambda before, item: False
    """Whether groups end between an item and the next of the same key, as at a gap."""
    rest: Literal["keep", "drop"] = "keep"
    """Policy for the remaining items before a break and at the end: keep them as a shorter group,
    or drop them."""
    _series: defaultdict[Hashable, _Series[T]] = field(
        init=False, repr=False, default_factory=lambda: defaultdict(_Series)
    )

    def __post_init__(self) -> None:
        check_integers(1, length=self.length, stride=self.stride, hop=self.hop)
        one_of(("keep", "drop"), rest=self.rest)

    def add(self, item: Item[T]) -> Iterator[Group[T]]:
        """Yield the group that this item completes, and the remaining items before a break."""
        series = self._series[self.key(item)]
        if series.items and self.breaks(series.items[-1], item):
            yield from self._rest(series)
            series = self._series[self.key(item)] = _Series()
        series.items.append(item)
        series.fresh += 1
        series.parts += item.parts
        span = (self.length - 1) * self.stride + 1
        if len(series.items) == series.skip + span:
            yield Group(tuple(islice(series.items, series.skip, None, self.stride)), series.parts)
            self._advance(series)

    def flush(self) -> Iterator[Group[T]]:
        """Yield the remaining items of each key, in the order of first items."""
        for series in self._series.values():
            yield from self._rest(series)
        self._series.clear()

    def _advance(self, series: _Series[T]) -> None:
        start = series.skip + (self.hop or self.length * self.stride)
        unneeded = min(start, len(series.items))
        for _ in range(unneeded):
            series.items.popleft()
        series.skip, series.fresh, series.parts = start - unneeded, 0, 0

    def _rest(self, series: _Series[T]) -> Iterator[Group[T]]:
        if not series.fresh:
            return
        items = tuple(islice(series.items, series.skip, None, self.stride))
        if self.rest == "keep" and items:
            yield Group(items, series.parts)
        else:
            fresh = tuple(islice(series.items, len(series.items) - series.fresh, None))
            yield Group(fresh, series.parts, cause=INCOMPLETE)


In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, kw_only=True)
class Stage(Generic[In, Out]):
    """Stage with one output per item, in the order of the source."""

    name: str
    function: Callable[[In], Out | DroppedItem]
    """Called in the stage's threads; with several workers it must be thread-safe. Items that were
    dropped before are passed on without a call."""
    workers: int = 1
    """Number of threads that run it. The order stays the same: a result waits for earlier
    results."""

    def __post_init__(self) -> None:
        check_integers(1, workers=self.workers)


@dataclass(frozen=True, kw_only=True)
class Aggregate(Generic[In, Out]):
    """Stage with one output per group of items, such as a clip or a batch; one thread.

    Outputs are renumbered, and their spans cover the spans of their parts. The grouping is flushed
    when the source ends, or an item fails.
    """

    name: str
    grouping: Callable[[], Grouping[In]]
    """Returns a new grouping for each run: `lambda: SlidingWindows(length=16)`."""
    function: Callable[[list[In]], Out | DroppedItem]
    """Called with the values of a group, in order."""
    waits: bool = True
    """Whether an incomplete group waits for further items. False: it is flushed as soon as the
    input is empty, so a batch is the items that arrived during the previous batch."""
    drops_freely: bool = False
    """Whether items dropped here never wait for room: the stage continues to take and drop items
    while later stages are blocked."""
    limiter: CapacityLimiter | None = None
    """Limiter of the groups in flight, for one run. A group acquires a permit before its first item
    is taken, so that items that arrive meanwhile stay in the queue before, and may be dropped
    there. The consumer of the group releases the permit; a group that is dropped here leaves it to
    the next."""

    workers = 1


AnyStage = Stage[In, Out] | Aggregate[In, Out]


@dataclass(frozen=True, kw_only=True, slots=True)
class StageStatistics:
    """Counters of a stage so far, summed over its workers.

    busy, starved and blocked add up to the lifetime of the workers: speed up the stage with the
    largest busy share, or give it more workers.
    """

    name: str
    workers: int
    items: int
    """Number of items that it finished and passed on."""
    busy_seconds: float
    """Time of work on finished items; for the source, time of reading, without its waits."""
    starved_seconds: float
    """Time of waits for input; for the source, waits with its `Waiter`. If it is the largest time,
    an earlier stage is slow."""
    blocked_seconds: float
    """Time of waits for room in the output queue, or for the position in the order. If it is large,
    a later stage is slow."""
    cpu_seconds: float | None = None
    """CPU time of its threads, without threads of libraries; None until all have ended."""
    core_wait_seconds: float | None = None
    """Time in which its threads were runnable and no core was free; None until all have ended, or
    if not known on this system."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Cause -> number of items dropped here, or in the queue behind it. It counts items of the
    source: a clip counts as the frames that end with it."""
