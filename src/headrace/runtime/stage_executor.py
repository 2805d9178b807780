"""Where the workers of one stage call its function, hand over results and count them.

This file may catch every exception: here they change threads.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.errors import HeadraceError, StageError
from headrace.runtime.clock import Clock
from headrace.runtime.flow_statistics import FlowMeter
from headrace.runtime.item import DroppedItem, Item, Span
from headrace.runtime.queue import BoundedQueue, Cancelled, Overflow
from headrace.runtime.stage import StageStatistics
from headrace.runtime.synchronization import CapacityLimiter
from headrace.runtime.tracing import NO_MARKS, Tracer
from headrace.runtime.waitable_source import Waiter

OVERFLOW: Final = "overflow"
"""Why an item is dropped that a full queue had no room for."""
SOURCE_FAILED: Final = "source failed"
"""Why the item is dropped that a source should have given when it failed, and others go on."""
_END: Final = object()


@dataclass(frozen=True, slots=True)
class FailedItem:
    """Takes the place of the item that failed."""

    index: int
    error: HeadraceError


Result = Item[Any] | FailedItem


class StageExecutor:
    """The place of one stage, or of the sources; thread-safe."""

    def __init__(
        self,
        name: str,
        workers: int,
        capacity: int,
        flow: FlowMeter,
        clock: Clock,
        overflow: Overflow = "wait",
        lanes: int = 1,
    ) -> None:
        self.name = name
        self.outbox: BoundedQueue[Result] = BoundedQueue(
            capacity, name, producers=workers, clock=clock, overflow=overflow, lanes=lanes
        )
        self.waiters: Sequence[Waiter] = ()
        """Of the sources; a stage has none."""
        self.room: CapacityLimiter | None = None
        """Where its groups take their places, if they do."""
        self.sheds = False
        """What ends here never waits for room."""
        self.marks: Tracer = NO_MARKS
        """Hears what is worked on here."""
        self._workers = workers
        self._flow = flow
        self._clock = clock
        self._lock = threading.Lock()
        self._overflow = overflow
        self._has_lanes = lanes > 1
        self._arrivals = self._items = self._busy_ns = 0

    def attempt(self, function: Callable[[Any], Any], item: Item[Any]) -> Result:
        """The item with the function's result as its value, or its failure."""
        start_ns = self._clock.now_ns()
        try:
            with self.marks.range(self.name, item.index):
                value = function(item.value)
        except BaseException as error:  # noqa: BLE001 - it is raised in the consumer's thread
            return FailedItem(item.index, explained(error, self.name, item))
        span = Span(self.name, start_ns, self._clock.now_ns())
        self._count_work(span.work_ns)
        return Item(item.index, value, (*item.spans, span), item.source, item.parts)

    def produce(self, values: Iterator[Any], waiter: Waiter, source: int) -> Result | None:
        """The next value of a source as an item, or its failure; None when there is no more.

        The span begins when the last wait for it was over.

        Raises:
            Cancelled: the waiter was woken.
        """
        start_ns, waited_ns = self._clock.now_ns(), waiter.waited_ns
        mark = self.marks.range(self.name, self._arrivals)
        try:
            with mark:
                value = next(values)
                began_ns, index = max(start_ns, waiter.resumed_ns), self._arrival()
                mark.arrived(index, began_ns)
        except StopIteration:
            return None
        except BaseException as error:
            if isinstance(error, Cancelled) and waiter.is_woken:
                raise
            failed = Item(self._arrival(), None, (), source)
            return FailedItem(failed.index, explained(error, self.name, failed))
        end_ns = self._clock.now_ns()
        self._count_work(end_ns - start_ns - (waiter.waited_ns - waited_ns))
        return Item(index, value, (Span(self.name, began_ns, end_ns),), source)

    def end_source(self, failure: FailedItem, source: int) -> Item[Any]:
        """What stands in the place of a source's failure when the others go on."""
        now_ns = self._clock.now_ns()
        dropped = DroppedItem(SOURCE_FAILED, failure.error)
        return Item(failure.index, dropped, (Span(self.name, now_ns, now_ns),), source)

    def gathered(self, index: int, items: Sequence[Item[Any]]) -> None:
        """Item `index` is made of these."""
        self.marks.gathered(self.name, index, [item.index for item in items])

    def more(self) -> None:
        """One item became one more."""
        self._flow.arrive()

    def hand_over(self, result: Result) -> bool:
        """Puts the result in its place; says whether another may follow."""
        waits = self._overflow == "wait"
        if isinstance(result, FailedItem):
            self.outbox.put(result, place=result.index, takes_room=waits)
            return False
        value = result.value
        if result.spans[-1].stage == self.name:  # it does not pass by
            self._count_item(result)
        if isinstance(value, DroppedItem):
            takes_room = waits and not self.sheds
            self.outbox.put(result, place=result.index, takes_room=takes_room)
            return True
        instead = None if waits else replace(result, value=DroppedItem(OVERFLOW))
        lane = (result.source or 0) if self._has_lanes else 0
        evicted = self.outbox.put(result, place=result.index, instead=instead, lane=lane)
        if isinstance(evicted, Item):
            with self._lock:
                self._items -= 1
            self._flow.drop(self.name, OVERFLOW, evicted.parts)
        return True

    def cancel(self) -> None:
        """Nobody needs what is made here: wakes all who wait, for room or for a source."""
        self.outbox.cancel()
        if self.room is not None:
            self.room.cancel()
        for waiter in self.waiters:
            waiter.wake()

    def statistics(self, starved_seconds: float, blocked_seconds: float) -> StageStatistics:
        """What was done here so far; the seconds are what the queues on both sides know."""
        starved_seconds += sum(waiter.waited_ns for waiter in self.waiters) / 1e9
        blocked_seconds += self.room.blocked_seconds if self.room is not None else 0.0
        with self._lock:
            return StageStatistics(
                name=self.name,
                workers=self._workers,
                items=self._items,
                busy_seconds=self._busy_ns / 1e9,
                starved_seconds=starved_seconds,
                blocked_seconds=blocked_seconds,
                dropped=self._flow.dropped_at(self.name),
            )

    def _arrival(self) -> int:
        with self._lock:
            index = self._arrivals
            self._arrivals += 1
        self._flow.arrive()
        return index

    def _count_work(self, nanoseconds: int) -> None:
        with self._lock:
            self._busy_ns += nanoseconds

    def _count_item(self, item: Item[Any]) -> None:
        if isinstance(item.value, DroppedItem):
            self._flow.drop(self.name, item.value.cause, item.parts)
            return
        with self._lock:
            self._items += 1


def explained(error: BaseException, stage: str, item: Item[Any]) -> HeadraceError:
    """Return the error as the consumer gets it: itself with a note, or the cause of one of ours."""
    if isinstance(error, HeadraceError):
        error.add_note(f"in stage {stage!r}, item {item.index}")
        return error
    message = f"stage {stage!r} failed on item {item.index}: {type(error).__name__}: {error}"
    failure = StageError(message, stage=stage, item=item.value)
    failure.__cause__ = error
    return failure
