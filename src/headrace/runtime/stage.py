"""Stages of a pipeline as values, one to one and many to one; groups of items; counters."""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Generic, Literal, Protocol, TypeVar

from headrace.runtime.item import DroppedItem, Item
from headrace.runtime.synchronization import CapacityLimiter
from headrace.units import check_integers, one_of

T = TypeVar("T")

INCOMPLETE: Final = "incomplete"
"""Cause of a drop: the items do not fill a group."""


@dataclass(frozen=True, slots=True)
class Group(Generic[T]):
    """Items that go on together, or that are dropped because they fill no group."""

    items: Sequence[Item[T]]
    """In order, at least one."""
    parts: int
    """Sum of `parts` of its items that no earlier group ended. A frame that two clips share ends
    with the first of them; all groups together end each item once."""
    cause: str | None = None
    """Why the items are dropped; None: they go on together."""


class Grouping(Protocol[T]):
    """Forms groups. Called in one thread, with items in their order."""

    def add(self, item: Item[T]) -> Iterator[Group[T]]:
        """Yield the groups that this item completes."""

    def flush(self) -> Iterator[Group[T]]:
        """Yield the remaining items when no item follows."""


@dataclass(slots=True, eq=False)
class _Series(Generic[T]):
    """Items of one key that a later group may need."""

    items: deque[Item[T]] = field(default_factory=deque)
    skip: int = 0
    """Items to skip before the next group starts; more than `items` holds where `hop` is large."""
    fresh: int = 0
    """Items at the end of `items` that no group has ended."""
    parts: int = 0
    """Sum of their `parts`."""


@dataclass(kw_only=True, eq=False)
class SlidingWindows(Generic[T]):
    """Groups of `length` items, `stride` apart; a group starts every `hop` items.

    `SlidingWindows(length=8)` are batches of 8.
    `SlidingWindows(length=16, stride=2, hop=16, rest="drop")` are clips of every second item, each
    sharing half of its items with the next. The object holds incomplete groups, so each run needs
    a new one.
    """

    length: int
    stride: int = 1
    """1 means consecutive."""
    hop: int | None = None
    """Items from the start of a group to the start of the next; None: without overlap or gap."""
    key: Callable[[Item[T]], Hashable] = lambda item: None
    """Items of different keys are in different groups: `lambda item: item.source` groups by
    source."""
    breaks: Callable[[Item[T], Item[T]], bool] = lambda before, item: False
    """Whether groups end between one item and the next of the same key, as at a gap."""
    rest: Literal["keep", "drop"] = "keep"
    """Remaining items before a break and at the end: a shorter group, or dropped items."""
    _series: defaultdict[Hashable, _Series[T]] = field(
        init=False, repr=False, default_factory=lambda: defaultdict(_Series)
    )

    def __post_init__(self) -> None:
        check_integers(1, length=self.length, stride=self.stride, hop=self.hop)
        one_of(("keep", "drop"), rest=self.rest)

    def add(self, item: Item[T]) -> Iterator[Group[T]]:
        """Yield the group that this item completes, and before a break the remaining items."""
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
        """Yield the remaining items of each key, in the order the keys came in."""
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
    """Stage with one output for each item, in the order of the source."""

    name: str
    function: Callable[[In], Out | DroppedItem]
    """Runs in the stage's own threads; with several workers it must be thread-safe. Never called
    with `DroppedItem`: items that were dropped before pass by."""
    workers: int = 1
    """Threads that run it. More than 1 never change the order: a result waits for those before."""

    def __post_init__(self) -> None:
        check_integers(1, workers=self.workers)


@dataclass(frozen=True, kw_only=True)
class Aggregate(Generic[In, Out]):
    """Stage with one output for each group of items, such as a clip or a batch; one thread.

    Outputs are numbered anew, and their spans cover those of their parts. An incomplete group is
    flushed by its grouping when the source ends, or an item fails.
    """

    name: str
    grouping: Callable[[], Grouping[In]]
    """Returns a new grouping for each run: `lambda: SlidingWindows(length=16)`."""
    function: Callable[[list[In]], Out | DroppedItem]
    """Called with the values of a group, in their order."""
    waits: bool = True
    """Whether an incomplete group waits for further items. False: it is flushed as soon as the
    input is empty, so a batch is what arrived while the one before was worked on."""
    drops_freely: bool = False
    """Whether items dropped here never wait for room: the stage goes on taking and dropping items
    while the stages behind it are blocked."""
    limiter: CapacityLimiter | None = None
    """A limiter for one run: a group acquires a permit before its first item is taken, so that
    items that arrive meanwhile stay in the queue before, and may be dropped there. The consumer of
    the group releases it; the permit of a group that is dropped here goes to the next group."""

    workers = 1


AnyStage = Stage[In, Out] | Aggregate[In, Out]


@dataclass(frozen=True, kw_only=True, slots=True)
class StageStatistics:
    """Counters of one stage so far, summed over its workers.

    busy, starved and blocked add up to the life of the workers: the stage with the largest share
    of busy is the one to speed up, or to give more workers.
    """

    name: str
    workers: int
    items: int
    """Items it finished and passed on."""
    busy_seconds: float
    """It worked on items it finished; for the source: it produced them, without its waits."""
    starved_seconds: float
    """It waited for input. The largest figure: an earlier stage is the slow one. For the source: it
    waited with its `Waiter`, for its pace or for what it reads from."""
    blocked_seconds: float
    """It waited for room at its output, or for its place in the order. Large: a later stage is the
    slow one."""
    cpu_seconds: float | None = None
    """CPU time of its threads, those of libraries not included; None: they have not all ended."""
    core_wait_seconds: float | None = None
    """Its threads could run and no core was free; None: they have not all ended, or it is not known
    on this system."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Cause -> items that ended here, or in the queue behind it. In items of the source: a clip
    counts as the frames that end with it."""
