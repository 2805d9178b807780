"""What the threads of a pipeline do: read a source, or run a stage, until it is over."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any, Final, Protocol

from headrace.runtime.grouping import Group
from headrace.runtime.item import DroppedItem, Item, source_of, spans_over
from headrace.runtime.queue import Cancelled, Closed
from headrace.runtime.stage import Aggregate, AnyStage, Disaggregate
from headrace.runtime.stage_executor import FailedItem, Result, StageExecutor
from headrace.runtime.waitable_source import MergedSource, values_of

EMPTY: Final = "empty"
"""Why an item is dropped that nothing came of."""
_END: Final = object()


class StageLoop(Protocol):
    """How a stage goes through its items."""

    waits: bool
    """Whether what it holds stays when no more items are there at the moment."""

    def admit(self) -> None:
        """Wait until the next item may be taken.

        Raises:
            Cancelled: nobody needs it any more.
        """

    def take(self, item: Result) -> Iterable[Result]:
        """What comes of one item, in the order it is handed on."""

    def end(self) -> Iterable[Result]:
        """What comes after the last item, or while no more are there."""


def run_feed(desk: StageExecutor, source: MergedSource, number: int) -> None:
    """Read one of the sources to its end, its failure, or until nobody needs it."""
    waiter = desk.waiters[number]
    try:
        with suppress(Cancelled), closing(values_of(source.feeds[number], waiter)) as values:
            is_over = False
            while not is_over:
                result = desk.produce(values, waiter, number)
                if result is None:
                    return
                is_over = isinstance(result, FailedItem)
                if isinstance(result, FailedItem) and source.on_error == "end":
                    result = desk.end_source(result, number)
                desk.hand_over(result)
    finally:
        desk.outbox.close()


def run_stage(desk: StageExecutor, work: StageLoop, before: Sequence[StageExecutor]) -> None:
    """Work on what the last of the desks `before` hands over, until a failure or the end."""
    try:
        with suppress(Cancelled), closing(_results(work, before[-1])) as results:
            for result in results:
                if not desk.hand_over(result):
                    return
    finally:
        # However it ended: what comes before has nobody to work for, what comes after knows.
        for each in before:
            each.cancel()
        desk.outbox.close()


def work_of(stage: AnyStage[Any, Any], desk: StageExecutor) -> StageLoop:
    """Return how a stage goes through its items; for all of its workers."""
    if isinstance(stage, Aggregate):
        return _Gathering(desk, stage)
    if isinstance(stage, Disaggregate):
        return _Scattering(desk, stage.function)
    return _OneByOne(desk, stage.function)


def _results(work: StageLoop, before: StageExecutor) -> Generator[Result, None, None]:
    for item in _admitted(work, before):
        yield from work.take(item)
        if not work.waits and before.outbox.is_empty():
            yield from work.end()
    yield from work.end()


def _admitted(work: StageLoop, before: StageExecutor) -> Iterator[Result]:
    with suppress(Closed):
        while True:
            work.admit()
            yield before.outbox.get()


class _Freely:
    """Takes items as they come."""

    waits = True

    def admit(self) -> None:
        return


class _OneByOne(_Freely):
    def __init__(self, desk: StageExecutor, function: Callable[[Any], Any]) -> None:
        self._desk = desk
        self._function = function

    def take(self, item: Result) -> Iterable[Result]:
        if isinstance(item, FailedItem) or item.is_dropped:
            return (item,)
        return (self._desk.attempt(self._function, item),)

    def end(self) -> Iterable[Result]:
        return ()


class _Gathering:
    def __init__(self, desk: StageExecutor, stage: Aggregate[Any, Any]) -> None:
        self.waits = stage.waits
        self._room = stage.room
        self._has_place = False
        self._desk = desk
        self._grouping = stage.grouping()
        self._function = stage.function
        self._numbering = _Numbering()

    def admit(self) -> None:
        if self._room is not None and not self._has_place:
            self._room.take(1)
            self._has_place = True

    def take(self, item: Result) -> Iterator[Result]:
        if isinstance(item, FailedItem):
            yield from self.end()
            yield self._numbering.number(item)
        elif item.is_dropped:
            yield self._numbering.number(item)
        else:
            yield from self._gathered(lambda: self._grouping.take(item))

    def end(self) -> Iterator[Result]:
        yield from self._gathered(self._grouping.flush)

    def _gathered(self, groups: Callable[[], Iterator[Group[Any]]]) -> Iterator[Result]:
        found = self._desk.attempt(lambda _: tuple(groups()), Item(self._numbering.index, None, ()))
        if isinstance(found, FailedItem):
            yield self._numbering.number(found)
            return
        for group in found.value:
            values = [item.value for item in group.items]
            whole = Item(
                self._numbering.index,
                values,
                spans_over(group.items),
                source_of(group.items),
                group.parts,
            )
            self._desk.gathered(whole.index, group.items)
            yield self._numbering.number(self._made_of(whole, group.cause))

    def _made_of(self, whole: Item[Any], cause: str | None) -> Result:
        if cause is not None:
            return self._desk.attempt(lambda _: DroppedItem(cause), whole)
        self.admit()
        result = self._desk.attempt(self._function, whole)
        self._has_place = isinstance(result, Item) and result.is_dropped
        return result


class _Scattering(_Freely):
    def __init__(self, desk: StageExecutor, function: Callable[[Any], Iterable[Any]]) -> None:
        self._desk = desk
        self._function = function
        self._numbering = _Numbering()

    def take(self, item: Result) -> Iterator[Result]:
        if isinstance(item, FailedItem) or item.is_dropped:
            yield self._numbering.number(item)
            return
        with closing(self._values(item.value)) as values:
            made = 0
            while True:
                one = replace(item, index=self._numbering.index, parts=1 if made else item.parts)
                result = self._desk.attempt(lambda _: next(values, _END), one)
                if isinstance(result, Item) and result.value is _END:
                    break
                if made:
                    self._desk.more()
                made += 1
                yield self._numbering.number(result)
            if not made:
                yield self._numbering.number(replace(result, value=DroppedItem(EMPTY)))

    def end(self) -> Iterable[Result]:
        return ()

    def _values(self, value: Any) -> Generator[Any, None, None]:
        yield from self._function(value)


class _Numbering:
    """The places of items that are numbered anew."""

    def __init__(self) -> None:
        self.index = 0
        """Of the next item."""

    def number(self, result: Result) -> Result:
        numbered = replace(result, index=self.index)
        self.index += 1
        return numbered
