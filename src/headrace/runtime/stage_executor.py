"""Executor of a pipeline stage: its thread loops, its output queue and its counters.

This file may catch every exception, to pass it from one thread to another.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from headrace.errors import HeadraceError, StageError
from headrace.runtime.clock import Clock, EndedThreads
from headrace.runtime.queue import BoundedQueue, Cancelled, Closed, Overflow
from headrace.runtime.stage import (
    Aggregate,
    AnyStage,
    DroppedItem,
    FlowMeter,
    Group,
    Item,
    Span,
    StageStatistics,
    source_of,
    spans_over,
)
from headrace.runtime.synchronization import CapacityLimiter
from headrace.runtime.tracing import NO_OP_TRACER, Tracer
from headrace.runtime.waitable_source import MergedSource, Waiter, values_of

OVERFLOW: Final = "overflow"
"""Cause of a drop: the queue was full."""
SOURCE_FAILED: Final = "source failed"
"""Cause of a drop: the source failed at the item, and other sources continue."""


@dataclass(frozen=True, slots=True)
class FailedItem:
    """Failure at the position of an item."""

    index: int
    error: HeadraceError


Result = Item[Any] | FailedItem


@dataclass(kw_only=True, eq=False)
class StageExecutor:
    """Calls a stage's function, or reads the sources, and queues the results. Thread-safe.

    `run_source` and `run` are the loops of its threads.
    """

    name: str
    workers: int
    capacity: int
    """Capacity of its queue."""
    flow: FlowMeter
    clock: Clock
    tracer: Tracer = NO_OP_TRACER
    overflow: Overflow = "wait"
    lanes: int = 1
    waiters: Sequence[Waiter] = ()
    """Waiters of the sources; empty for a stage."""
    limiter: CapacityLimiter | None = None
    """Limiter of the groups of an `Aggregate`."""
    drops_freely: bool = False
    """Whether dropped items never wait for room."""

    def __post_init__(self) -> None:
        self.queue: BoundedQueue[Any] = BoundedQueue(
            self.capacity,
            self.name,
            producers=self.workers,
            clock=self.clock,
            overflow=self.overflow,
            lanes=self.lanes,
        )
        """Queue of `Result`s behind a stage; of results before a sink."""
        self.ended = EndedThreads(self.workers)
        self._lock = threading.Lock()
        self._arrivals = self._items = self._busy_ns = 0

    def run_source(self, source: MergedSource, number: int) -> None:
        """Read source `number` until it ends, fails or is cancelled."""
        waiter = self.waiters[number]
        try:
            with (
                self.ended.measured(),
                suppress(Cancelled),
                closing(values_of(source.feeds[number], waiter)) as values,
            ):
                is_over = False
                while not is_over:
                    result = self._produce(values, waiter, number)
                    if result is None:
                        return
                    is_over = isinstance(result, FailedItem)
                    if isinstance(result, FailedItem) and source.on_error == "end":
                        result = self._drop_failure(result, number)
                    self._put(result)
        finally:
            self.queue.close()

    def run(self, stage: AnyStage[Any, Any], upstream: "Sequence[StageExecutor]") -> None:
        """Work on the results of the last of `upstream` until they end, or a failure."""
        try:
            with (
                self.ended.measured(),
                suppress(Cancelled),
                closing(self._results(stage, upstream[-1].queue)) as results,
            ):
                for result in results:
                    if not self._put(result):
                        return
        finally:
            # In any case: upstream has lost its consumer, and downstream gets no more items.
            for executor in upstream:
                executor.cancel()
            self.queue.close()

    def cancel(self) -> None:
        """Cancel the output, and wake all threads that wait for room or in a source."""
        self.queue.cancel()
        if self.limiter is not None:
            self.limiter.cancel()
        for waiter in self.waiters:
            waiter.wake()

    def statistics(self, starved_seconds: float, blocked_seconds: float) -> StageStatistics:
        """Return the counters so far; the arguments are times of the queues on both sides."""
        starved_seconds += sum(waiter.waited_ns for waiter in self.waiters) / 1e9
        blocked_seconds += self.limiter.blocked_seconds if self.limiter is not None else 0.0
        with self._lock:
            return StageStatistics(
                name=self.name,
                workers=self.workers,
                items=self._items,
                busy_seconds=self._busy_ns / 1e9,
                starved_seconds=starved_seconds,
                blocked_seconds=blocked_seconds,
                dropped=self.flow.dropped_at(self.name),
                **self.ended.seconds(),
            )

    def _results(
        self, stage: AnyStage[Any, Any], inbox: BoundedQueue[Result]
    ) -> Generator[Result, None, None]:
        """Yield the results of a stage, in order."""
        if isinstance(stage, Aggregate):
            yield from _Aggregation(self, stage).results(inbox)
        else:
            for item in inbox:
                if isinstance(item, FailedItem) or item.is_dropped:
                    yield item
                else:
                    yield self.attempt(stage.function, item)

    def attempt(self, function: Callable[[Any], Any], item: Item[Any]) -> Result:
        """Return the item with the function's result as its value, or the failure."""
        start_ns = self.clock.now_ns()
        try:
            with self.tracer.range(self.name, item.index):
                value = function(item.value)
        except BaseException as error:  # noqa: BLE001 - it is raised in the consumer's thread
            return FailedItem(item.index, _stage_error(error, self.name, item))
        span = Span(self.name, start_ns, self.clock.now_ns())
        with self._lock:
            self._busy_ns += span.work_ns
        return Item(item.index, value, (*item.spans, span), item.source, item.parts)

    def _produce(self, values: Iterator[Any], waiter: Waiter, source: int) -> Result | None:
        """Return the next value of a source as an item, or the failure; None at the end.

        The span starts at the end of the last wait.

        Raises:
            Cancelled: the waiter is woken.
        """
        start_ns, waited_ns = self.clock.now_ns(), waiter.waited_ns
        traced = self.tracer.range(self.name, self._arrivals)
        try:
            with traced:
                value = next(values)
                item_start_ns, index = max(start_ns, waiter.resumed_ns), self._count_arrival()
                traced.set_item(index, item_start_ns)
        except StopIteration:
            return None
        except BaseException as error:
            if isinstance(error, Cancelled) and waiter.is_woken:
                raise
            failed = Item(self._count_arrival(), None, (), source)
            return FailedItem(failed.index, _stage_error(error, self.name, failed))
        end_ns = self.clock.now_ns()
        with self._lock:
            self._busy_ns += end_ns - start_ns - (waiter.waited_ns - waited_ns)
        return Item(index, value, (Span(self.name, item_start_ns, end_ns),), source)

    def _drop_failure(self, failure: FailedItem, source: int) -> Item[Any]:
        """Return a dropped item for a source's failure, so that other sources continue."""
        now_ns = self.clock.now_ns()
        dropped = DroppedItem(SOURCE_FAILED, failure.error)
        return Item(failure.index, dropped, (Span(self.name, now_ns, now_ns),), source)

    def _put(self, result: Result) -> bool:
        """Put a result into the output; return whether another may follow."""
        waits = self.overflow == "wait"
        if isinstance(result, FailedItem):
            self.queue.put(result, position=result.index, takes_room=waits)
            return False
        value = result.value
        if result.spans[-1].stage == self.name:  # this stage worked on it
            self.count_item(result)
        if isinstance(value, DroppedItem):
            takes_room = waits and not self.drops_freely
            self.queue.put(result, position=result.index, takes_room=takes_room)
            return True
        replacement = None if waits else replace(result, value=DroppedItem(OVERFLOW))
        lane = (result.source or 0) if self.lanes > 1 else 0
        evicted = self.queue.put(result, position=result.index, replacement=replacement, lane=lane)
        if isinstance(evicted, Item):
            with self._lock:
                self._items -= 1
            self.flow.drop(self.name, OVERFLOW, evicted.parts)
        return True

    def _count_arrival(self) -> int:
        with self._lock:
            index = self._arrivals
            self._arrivals += 1
        self.flow.arrive()
        return index

    def count_item(self, item: Item[Any]) -> None:
        """Count an item that the stage has passed on or dropped."""
        if isinstance(item.value, DroppedItem):
            self.flow.drop(self.name, item.value.cause, item.parts)
            return
        with self._lock:
            self._items += 1


class _Aggregation:
    """Results of an `Aggregate`, renumbered; for one thread."""

    def __init__(self, executor: StageExecutor, stage: Aggregate[Any, Any]) -> None:
        self._executor = executor
        self._stage = stage
        self._grouping = stage.grouping()
        self._has_permit = False
        self._index = 0
        """Index of the next result."""

    def results(self, inbox: BoundedQueue[Result]) -> Iterator[Result]:
        for item in self._admitted(inbox):
            if isinstance(item, FailedItem):
                yield from self._aggregated(self._grouping.flush)
                yield self._numbered(item)
            elif item.is_dropped:
                yield self._numbered(item)
            else:
                yield from self._aggregated(partial(self._grouping.add, item))
            if not self._stage.waits and inbox.is_empty():
                yield from self._aggregated(self._grouping.flush)
        yield from self._aggregated(self._grouping.flush)

    def _admitted(self, inbox: BoundedQueue[Result]) -> Iterator[Result]:
        with suppress(Closed):
            while True:
                self._acquire_permit()
                yield inbox.get()

    def _acquire_permit(self) -> None:
        if self._stage.limiter is not None and not self._has_permit:
            self._stage.limiter.acquire(1)
            self._has_permit = True

    def _aggregated(self, groups: Callable[[], Iterator[Group[Any]]]) -> Iterator[Result]:
        grouped = self._executor.attempt(lambda _: tuple(groups()), Item(self._index, None, ()))
        if isinstance(grouped, FailedItem):
            yield self._numbered(grouped)
            return
        for group in grouped.value:
            values, source = [item.value for item in group.items], source_of(group.items)
            item = Item(self._index, values, spans_over(group.items), source, group.parts)
            parts = [part.index for part in group.items]
            self._executor.tracer.record_parts(self._executor.name, item.index, parts)
            yield self._numbered(self._run(item, group.cause))

    def _run(self, item: Item[Any], cause: str | None) -> Result:
        if cause is not None:
            return self._executor.attempt(lambda _: DroppedItem(cause), item)
        self._acquire_permit()
        result = self._executor.attempt(self._stage.function, item)
        self._has_permit = isinstance(result, Item) and result.is_dropped
        return result

    def _numbered(self, result: Result) -> Result:
        numbered = replace(result, index=self._index)
        self._index += 1
        return numbered


def _stage_error(error: BaseException, stage: str, item: Item[Any]) -> HeadraceError:
    """Return the error for the consumer: the same with a note, or a StageError that it caused."""
    if isinstance(error, HeadraceError):
        error.add_note(f"in stage {stage!r}, item {item.index}")
        return error
    message = f"stage {stage!r} failed on item {item.index}: {type(error).__name__}: {error}"
    failure = StageError(message, stage=stage, item=item.value)
    failure.__cause__ = error
    return failure
