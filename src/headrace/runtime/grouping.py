"""Which items go together: clips of frames, batches, per source or per anything. Pure."""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Generic, Literal, Protocol, TypeVar

from headrace.errors import ConfigError
from headrace.runtime.item import Item
from headrace.units import check_integers

T = TypeVar("T")

INCOMPLETE: Final = "incomplete"
"""Why items are dropped that make no whole group."""


@dataclass(frozen=True, slots=True)
class Group(Generic[T]):
    """Items that go together, or that end because nothing goes together with them."""

    items: Sequence[Item[T]]
    """In order, at least one."""
    parts: int
    """The parts of its items that no earlier group ended, added up. A frame that two clips share
    ends with the first of them; all groups together end each item once."""
    cause: str | None = None
    """Why they end here as dropped; None: they go on together."""


class Grouping(Protocol[T]):
    """Decides which items go together. Called in one thread, with items in their order."""

    def take(self, item: Item[T]) -> Iterator[Group[T]]:
        """The groups that are complete with this item."""

    def flush(self) -> Iterator[Group[T]]:
        """What is left when no item follows."""


@dataclass(slots=True, eq=False)
class _Series(Generic[T]):
    """Items of one key that a group may still need."""

    items: deque[Item[T]] = field(default_factory=deque)
    skip: int = 0
    """From the first of them, or of those to come, to where the next group begins."""
    fresh: int = 0
    """How many of the last ones no group has ended."""
    parts: int = 0
    """Of these."""


@dataclass(kw_only=True, eq=False)
class SlidingWindows(Generic[T]):
    """Groups of `length` items, each `stride` after the one before, begun every `hop` items.

    `SlidingWindows(length=8)` are batches of 8.
    `SlidingWindows(length=16, stride=2, hop=16, rest="drop")` are clips of every second item, each
    sharing half of its items with the next. Incomplete groups are held, so each run takes a new
    object.
    """

    length: int
    stride: int = 1
    """1 means consecutive."""
    hop: int | None = None
    """From the first item of a group to the first of the next, in items; None means that groups
    follow each other without overlap or gap."""
    key: Callable[[Item[T]], Hashable] = lambda item: None
    """Items with different keys never go together: `lambda item: item.source` groups each source
    by itself."""
    breaks: Callable[[Item[T], Item[T]], bool] = lambda before, item: False
    """Whether no group may reach from one item to the next of the same key, as over a gap."""
    rest: Literal["keep", "drop"] = "keep"
    """What is left before a break and at the end: a shorter group, or items that end as dropped."""
    _held: defaultdict[Hashable, _Series[T]] = field(
        init=False, repr=False, default_factory=lambda: defaultdict(_Series)
    )

    def __post_init__(self) -> None:
        check_integers(1, length=self.length, stride=self.stride, hop=self.hop)
        if self.rest not in ("keep", "drop"):
            raise ConfigError(f"rest of a group must be 'keep' or 'drop', got {self.rest!r}")

    def take(self, item: Item[T]) -> Iterator[Group[T]]:
        """The group that is complete with this item, and the rest before a break."""
        series = self._held[self.key(item)]
        if series.items and self.breaks(series.items[-1], item):
            yield from self._rest(series)
            series = self._held[self.key(item)] = _Series()
        series.items.append(item)
        series.fresh += 1
        series.parts += item.parts
        span = (self.length - 1) * self.stride + 1
        if len(series.items) == series.skip + span:
            yield Group(tuple(islice(series.items, series.skip, None, self.stride)), series.parts)
            self._advance(series)

    def flush(self) -> Iterator[Group[T]]:
        """The rest of each key, in the order the keys came in."""
        for series in self._held.values():
            yield from self._rest(series)
        self._held.clear()

    def _advance(self, series: _Series[T]) -> None:
        start = series.skip + (self.hop or self.length * self.stride)
        unneeded = min(start, len(series.items))
        for _ in range(unneeded):
            series.items.popleft()
        series.skip, series.fresh, series.parts = start - unneeded, 0, 0

    def _rest(self, series: _Series[T]) -> Iterator[Group[T]]:
        if not series.fresh:
            return
        kept = tuple(islice(series.items, series.skip, None, self.stride))
        if self.rest == "keep" and kept:
            yield Group(kept, series.parts)
        else:
            fresh = tuple(islice(series.items, len(series.items) - series.fresh, None))
            yield Group(fresh, series.parts, cause=INCOMPLETE)
