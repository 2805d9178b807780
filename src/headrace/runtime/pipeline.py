"""A line of stages, each in threads of its own, joined by bounded queues.

Every item keeps the number the source gave it, and a stage with several workers puts its results in
the order of these numbers. A failure takes the place of the item that failed, so the consumer gets
exactly the items before it, then the error: what it sees does not depend on timing. The stage that
failed, and every stage the failure passes, stops what comes before it.

This is the one file that may catch every exception: here they change threads.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from types import TracebackType
from typing import Any, Final

from headrace.errors import ConfigError, HeadraceError, StageError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import BoundedQueue, Cancelled
from headrace.runtime.stage import Item, Span, Stage, StageStatistics
from headrace.runtime.statistics import QueueStatistics
from headrace.runtime.threads import ThreadGroup, iterating


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A source and the stages its values go through; nothing runs before `run`."""

    source: Iterable[Any]
    """Read in a thread of its own; a generator is closed there. It must come back from every
    wait, for a pipeline that ends waits for it."""
    stages: Sequence[Stage[Any, Any]] = ()
    capacity: int = 2
    """Items that may wait behind the source and behind each stage. 2 evens out small differences
    at little memory and latency; `QueueStatistics` says whether more would help."""
    source_name: str = "source"
    """What spans, statistics and errors call the source."""

    def __post_init__(self) -> None:
        names = [self.source_name, *(stage.name for stage in self.stages)]
        if len(set(names)) < len(names):
            raise ConfigError(f"stages need different names, got {', '.join(names)}")
        if self.capacity < 1:
            raise ConfigError(f"capacity must be >= 1, got {self.capacity}")

    def run(self, *, clock: Clock = SYSTEM_CLOCK) -> "Run":
        """Runs it: `with pipeline.run() as run: for item in run: ...`.

        Each run iterates the source anew, so a generator is good for one.
        """
        return Run(self, clock)


class Run:
    """One run of a pipeline: an iterator of the `Item`s that leave the last stage, in order.

    Threads start with the first item asked for. When the run ends, in any way (exhausted, failed,
    closed, end of the `with` block, garbage), all threads are cancelled and joined.

    Iterating raises:
        StageError: A stage or the source raised; `__cause__` is what it raised.
        HeadraceError: A stage or the source raised one: it arrives as itself, with a note that
            names the stage, so that a MediaError stays a MediaError.
    """

    def __init__(self, pipeline: Pipeline, clock: Clock) -> None:
        crews = [(pipeline.source_name, 1), *((it.name, it.workers) for it in pipeline.stages)]
        self._desks = [_Desk(name, workers, pipeline.capacity, clock) for name, workers in crews]
        # Gets no reference to this object, so that a forgotten run is closed at once.
        self._items = _deliver(pipeline, self._desks)

    def __iter__(self) -> "Run":
        return self

    def __next__(self) -> Item[Any]:
        return next(self._items)

    def close(self) -> None:
        """Cancels and joins all threads. What they are working on is finished and dropped."""
        self._items.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def stages(self) -> tuple[StageStatistics, ...]:
        """What each stage did so far, the source first; also after the end."""
        queues = self.queues()
        starved = (0.0, *(queue.starved_seconds for queue in queues[:-1]))
        return tuple(
            desk.statistics(starved_seconds, queue.blocked_seconds)
            for desk, starved_seconds, queue in zip(self._desks, starved, queues, strict=True)
        )

    def queues(self) -> tuple[QueueStatistics, ...]:
        """How the queue behind each stage went so far, called like the stage that fills it.

        The last one is read by the consumer: its `starved_seconds` is what the consumer waited.
        """
        return tuple(desk.outbox.statistics() for desk in self._desks)


@dataclass(frozen=True, slots=True)
class _Failure:
    """Takes the place of the item that failed."""

    index: int
    error: HeadraceError


_Queue = BoundedQueue[Item[Any] | _Failure]
_END: Final = object()


class _Desk:
    """Where the workers of one stage call its function, hand over results and count them."""

    def __init__(self, name: str, workers: int, capacity: int, clock: Clock) -> None:
        self.name = name
        self.workers = workers
        self.outbox: _Queue = BoundedQueue(capacity, name, producers=workers, clock=clock)
        self._clock = clock
        self._lock = threading.Lock()
        self._items = 0
        self._busy_ns = 0

    def attempt(self, function: Callable[[Any], Any], item: Item[Any]) -> Item[Any] | _Failure:
        """The item with the function's result as its value, or its failure."""
        start_ns = self._clock.now_ns()
        try:
            value = function(item.value)
        except BaseException as error:  # noqa: BLE001 - it is raised in the consumer's thread
            return _Failure(item.index, _explained(error, self.name, item))
        span = Span(self.name, start_ns, self._clock.now_ns())
        return Item(item.index, value, (*item.spans, span))

    def hand_over(self, result: Item[Any] | _Failure) -> bool:
        """Puts the result in its place; says whether another may follow."""
        if isinstance(result, Item):
            span = result.spans[-1]
            with self._lock:
                self._items += 1
                self._busy_ns += span.end_ns - span.start_ns
        self.outbox.put(result, place=result.index)
        return isinstance(result, Item)

    def statistics(self, starved_seconds: float, blocked_seconds: float) -> StageStatistics:
        with self._lock:
            return StageStatistics(
                name=self.name,
                workers=self.workers,
                items=self._items,
                busy_seconds=self._busy_ns / 1e9,
                starved_seconds=starved_seconds,
                blocked_seconds=blocked_seconds,
            )


def _explained(error: BaseException, stage: str, item: Item[Any]) -> HeadraceError:
    if isinstance(error, HeadraceError):
        error.add_note(f"in stage {stage!r}, item {item.index}")
        return error
    message = f"stage {stage!r} failed on item {item.index}: {type(error).__name__}: {error}"
    failure = StageError(message, stage=stage, item=item.value)
    failure.__cause__ = error
    return failure


def _deliver(pipeline: Pipeline, desks: Sequence[_Desk]) -> Generator[Item[Any], None, None]:
    def cancel() -> None:
        for desk in desks:
            desk.outbox.cancel()

    with ThreadGroup(cancel) as threads:
        threads.start(desks[0].name, partial(_run_source, desks[0], pipeline.source))
        for stage, (before, desk) in zip(pipeline.stages, pairwise(desks), strict=True):
            work = partial(_run_stage, desk, stage.function, before.outbox)
            for worker in range(stage.workers):
                threads.start(f"{stage.name}-{worker}", work)
        for item in desks[-1].outbox:
            if isinstance(item, _Failure):
                raise item.error
            yield item


def _run_source(desk: _Desk, source: Iterable[Any]) -> None:
    try:
        with suppress(Cancelled), iterating(source) as values:
            for index in count():
                result = desk.attempt(lambda _: next(values, _END), Item(index, None, ()))
                if isinstance(result, Item) and result.value is _END:
                    return
                if not desk.hand_over(result):
                    return
    finally:
        desk.outbox.close()


def _run_stage(desk: _Desk, function: Callable[[Any], Any], inbox: _Queue) -> None:
    try:
        with suppress(Cancelled):
            for item in inbox:
                result = item if isinstance(item, _Failure) else desk.attempt(function, item)
                if not desk.hand_over(result):
                    return
    finally:
        # However it ended: what comes before has nobody to work for, what comes after knows.
        inbox.cancel()
        desk.outbox.close()
