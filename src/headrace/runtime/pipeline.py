"""Pipeline: a source and stages, each in threads of its own, joined by bounded queues.

Every item keeps the index the source gave it, and a stage with several workers puts its results in
the order of these indices. A failure takes the place of the item that failed, so the consumer gets
exactly the items before it, then the error: the result does not depend on timing. The stage that
failed, and every stage the failure passes, cancels the stages before it. A dropped item keeps its
place, too, with the cause.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.errors import ConfigError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.item import FlowMeter, FlowStatistics, Item
from headrace.runtime.queue import Overflow, QueueStatistics
from headrace.runtime.stage import Aggregate, AnyStage, StageStatistics
from headrace.runtime.stage_executor import FailedItem, StageExecutor
from headrace.runtime.threads import ThreadGroup
from headrace.runtime.tracing import NO_OP_TRACER, Tracer
from headrace.runtime.waitable_source import AnySource, MergedSource, Waiter, merged
from headrace.units import check_integers


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Description of a pipeline; nothing runs before `run`."""

    source: AnySource
    """Read in a thread of its own; a generator is closed there. A source that waits is a
    `WaitableSource`, so that it can be woken: a pipeline that ends waits for its source. Several
    sources are a `MergedSource`."""
    stages: Sequence[AnyStage[Any, Any]] = ()
    capacity: int = 2
    """Items that may wait behind the source and behind each stage. 2 evens out small differences
    at little memory and latency; `QueueStatistics` shows whether more would help."""
    source_name: str = "source"
    """Name of the source in spans, statistics and errors."""
    overflow: Overflow = "wait"
    """What a value of the source does when the queue behind it is full. A dropped one keeps its
    place, with the cause "overflow"; stages always wait, so no work was spent on it."""
    source_capacity: int | None = None
    """Items that may wait behind the source; None means as many as behind each stage. Larger where
    a stage aggregates many small items."""
    lanes: int = 1
    """Sources that share the queue behind them in equal parts, so that a fast one never drops the
    items of a slow one: the number of merged sources. 1: the queue is not divided."""

    traces_source: bool = True
    """Whether the source's work is traced; False where it only passes on what other threads
    make."""

    def __post_init__(self) -> None:
        names = [self.source_name, *(stage.name for stage in self.stages)]
        if len(set(names)) < len(names):
            raise ConfigError(f"stages need different names, got {', '.join(names)}")
        check_integers(1, capacity=self.capacity, source_capacity=self.source_capacity)

    def run(self, *, clock: Clock = SYSTEM_CLOCK, tracer: Tracer = NO_OP_TRACER) -> "Run":
        """Run it: `with pipeline.run() as run: for item in run: ...`.

        Each run iterates the source anew, so a generator is good for one. `tracer` gets a range
        for each item that the source or a stage works on.
        """
        return Run(self, clock, tracer)


class Run:
    """One run of a pipeline: an iterator of the `Item`s that leave the last stage, in order.

    Threads start with the first item taken. When the run ends, in any way (exhausted, failed,
    closed, end of the `with` block, garbage), all threads are cancelled and joined, and sources
    that wait are woken. A dropped item comes in its place: `item.is_dropped`.

    Iterating raises:
        StageError: A stage or the source raised an exception, which is the `__cause__`.
        HeadraceError: A stage or the source raised one: it arrives as itself, with a note that
            names the stage, so that a MediaError stays a MediaError.
    """

    def __init__(self, pipeline: Pipeline, clock: Clock, tracer: Tracer) -> None:
        self._flow = FlowMeter()
        source = merged(pipeline.source)
        self._executors = [
            StageExecutor(
                name=pipeline.source_name,
                workers=len(source.feeds),
                capacity=pipeline.source_capacity or pipeline.capacity,
                flow=self._flow,
                clock=clock,
                tracer=tracer if pipeline.traces_source else NO_OP_TRACER,
                overflow=pipeline.overflow,
                lanes=pipeline.lanes,
                waiters=[Waiter(clock) for _ in source.feeds],
            ),
            *(
                StageExecutor(
                    name=stage.name,
                    workers=stage.workers,
                    capacity=pipeline.capacity,
                    flow=self._flow,
                    clock=clock,
                    tracer=tracer,
                    limiter=stage.limiter if isinstance(stage, Aggregate) else None,
                    drops_freely=isinstance(stage, Aggregate) and stage.drops_freely,
                )
                for stage in pipeline.stages
            ),
        ]
        # Gets no reference to this object, so that a forgotten run is closed at once.
        self._items = _deliver(source, pipeline.stages, self._executors, self._flow)

    def __iter__(self) -> "Run":
        return self

    def __next__(self) -> Item[Any]:
        return next(self._items)

    def close(self) -> None:
        """Cancel and join all threads. Items in work are finished and discarded."""
        self._items.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stages(self) -> tuple[StageStatistics, ...]:
        """Return the counters of each stage so far, the source first; also after the end."""
        queues = self.queues()
        starved = (0.0, *(queue.starved_seconds for queue in queues[:-1]))
        return tuple(
            executor.statistics(starved_seconds, queue.blocked_seconds)
            for executor, starved_seconds, queue in zip(
                self._executors, starved, queues, strict=True
            )
        )

    def flow(self) -> FlowStatistics:
        """Return the counts of items so far: arrived = delivered + dropped + in flight."""
        return self._flow.statistics()

    def queues(self) -> tuple[QueueStatistics, ...]:
        """Return the statistics of the queue behind each stage so far, by the stage's name.

        The consumer reads the last one: its `starved_seconds` is how long the consumer waited.
        """
        return tuple(executor.queue.statistics() for executor in self._executors)


def _deliver(
    source: MergedSource,
    stages: Sequence[AnyStage[Any, Any]],
    executors: Sequence[StageExecutor],
    flow: FlowMeter,
) -> Generator[Item[Any], None, None]:
    def cancel() -> None:
        for executor in executors:
            executor.cancel()

    with ThreadGroup(cancel) as threads:
        name = executors[0].name
        for number in range(len(source.feeds)):
            thread = name if len(source.feeds) == 1 else f"{name}-{number}"
            threads.start(thread, partial(executors[0].run_source, source, number))
        for number, stage in enumerate(stages, start=1):
            run = partial(executors[number].run, stage, executors[:number])
            for worker in range(stage.workers):
                threads.start(f"{stage.name}-{worker}", run)
        for item in executors[-1].queue:
            if isinstance(item, FailedItem):
                raise item.error
            if not item.is_dropped:
                flow.deliver(item.parts)
            yield item
