"""Pipeline: a source and stages in their own threads, connected by bounded queues.

Every item keeps the index from the source, and a stage with several workers puts its results in the
order of the indices. A failure replaces the failed item, so the consumer gets exactly the items
before it, then the error: the result does not depend on timing. The failed stage, and every stage
that the failure passes, cancels the stages before it. A dropped item keeps its position too, with
the cause.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.errors import ConfigError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import Overflow, QueueStatistics
from headrace.runtime.stage import (
    Aggregate,
    AnyStage,
    FlowMeter,
    FlowStatistics,
    Item,
    StageStatistics,
)
from headrace.runtime.stage_executor import FailedItem, StageExecutor
from headrace.runtime.synchronization import ThreadGroup
from headrace.runtime.tracing import NO_OP_TRACER, Tracer
from headrace.runtime.waitable_source import AnySource, MergedSource, Waiter, merged
from headrace.units import check_integers


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Description of a pipeline; `run` starts it."""

    source: AnySource
    """Source of the items, read in its own thread; a generator is closed there. A source that waits
    must be a `WaitableSource`, which can be woken, because the pipeline joins its source at the
    end. Several sources are a `MergedSource`."""
    stages: Sequence[AnyStage[Any, Any]] = ()
    capacity: int = 2
    """Capacity of the queue behind the source and behind each stage, in items. 2 evens out small
    differences at little memory and latency; `QueueStatistics` shows whether more would help."""
    source_name: str = "source"
    """Name of the source in spans, statistics and errors."""
    overflow: Overflow = "wait"
    """Policy of the source for a full queue. A dropped item keeps its position, with the cause
    "overflow"; stages always wait, so no work is spent on dropped items."""
    source_capacity: int | None = None
    """Capacity of the queue behind the source; None: `capacity`. Larger if a stage aggregates many
    small items."""
    lanes: int = 1
    """Number of equal parts of the queue behind merged sources, one per source, so that a fast
    source never drops items of a slow one. 1: the queue is not divided."""
    traces_source: bool = True
    """Whether the source's work is traced; False if it only forwards values of other threads."""

    def __post_init__(self) -> None:
        names = [self.source_name, *(stage.name for stage in self.stages)]
        if len(set(names)) < len(names):
            raise ConfigError(f"stages need different names, got {', '.join(names)}")
        check_integers(1, capacity=self.capacity, source_capacity=self.source_capacity)

    def run(self, *, clock: Clock = SYSTEM_CLOCK, tracer: Tracer = NO_OP_TRACER) -> "Run":
        """Run the pipeline: `with pipeline.run() as run: for item in run: ...`.

        Each run iterates the source again, so a generator serves one run. `tracer` gets a range for
        each item that the source or a stage works on.
        """
        return Run(self, clock, tracer)


class Run:
    """A run of a pipeline: an iterator of the `Item`s of the last stage, in order.

    Threads start at the first `next`. When the run ends in any way (exhausted, failed, closed, end
    of the `with` block, garbage-collected), all threads are cancelled and joined, and waiting
    sources are woken. Dropped items are included, in order: `item.is_dropped`.

    Iterating raises:
        StageError: a stage or the source raised an exception, which is the `__cause__`.
        HeadraceError: a stage or the source raised it; a note names the stage. A MediaError stays a
            MediaError.
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
        # The generator must not refer to this object, so that a forgotten run is closed at once.
        self._items = _deliver(source, pipeline.stages, self._executors, self._flow)

    def __iter__(self) -> "Run":
        return self

    def __next__(self) -> Item[Any]:
        return next(self._items)

    def close(self) -> None:
        """Cancel and join all threads; they finish their items, which are discarded."""
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
        """Return the statistics so far of the queue behind the source and each stage.

        The consumer reads the last queue: its `starved_seconds` is the consumer's wait.
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
