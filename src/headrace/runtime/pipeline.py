"""A line of stages, each in threads of its own, joined by bounded queues.

Every item keeps the number the source gave it, and a stage with several workers puts its results in
the order of these numbers. A failure takes the place of the item that failed, so the consumer gets
exactly the items before it, then the error: what it sees does not depend on timing. The stage that
failed, and every stage the failure passes, stops what comes before it. An item that is dropped on
its way keeps its place, too, and the consumer sees why.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.errors import ConfigError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.flow_statistics import FlowMeter, FlowStatistics
from headrace.runtime.item import Item
from headrace.runtime.queue import Overflow, QueueStatistics
from headrace.runtime.stage import Aggregate, AnyStage, StageStatistics
from headrace.runtime.stage_executor import FailedItem, StageExecutor
from headrace.runtime.stage_loops import run_feed, run_stage, work_of
from headrace.runtime.threads import ThreadGroup
from headrace.runtime.tracing import NO_MARKS, Tracer
from headrace.runtime.waitable_source import AnySource, MergedSource, Waiter, merged
from headrace.units import check_integers


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A source and the stages its values go through; nothing runs before `run`."""

    source: AnySource
    """Read in a thread of its own; a generator is closed there. One that waits is a `Feed`, so
    that it can be woken: a pipeline that ends waits for its source. Several are `MergedSource`."""
    stages: Sequence[AnyStage[Any, Any]] = ()
    capacity: int = 2
    """Items that may wait behind the source and behind each stage. 2 evens out small differences
    at little memory and latency; `QueueStatistics` says whether more would help."""
    source_name: str = "source"
    """What spans, statistics and errors call the source."""
    overflow: Overflow = "wait"
    """What happens to a value of the source that finds the queue behind it full. One that is
    dropped keeps its place, with the cause "overflow"; stages always wait, so it is dropped before
    anything was spent on it."""
    source_capacity: int | None = None
    """Items that may wait behind the source; None means as many as behind each stage. What waits
    there is small and many where stages gather it."""
    lanes: int = 1
    """Sources that share the places behind them in equal parts, so that a fast one never drops what
    a slow one gave: as many as are merged. 1: the places are everybody's."""

    marks_source: bool = True
    """Whether the source's work is marked: not where it hands out what other threads make."""

    def __post_init__(self) -> None:
        names = [self.source_name, *(stage.name for stage in self.stages)]
        if len(set(names)) < len(names):
            raise ConfigError(f"stages need different names, got {', '.join(names)}")
        check_integers(1, capacity=self.capacity, source_capacity=self.source_capacity)

    def run(self, *, clock: Clock = SYSTEM_CLOCK, marks: Tracer = NO_MARKS) -> "Run":
        """Runs it: `with pipeline.run() as run: for item in run: ...`.

        Each run iterates the source anew, so a generator is good for one. `marks` hear of each
        item that the source or a stage works on.
        """
        return Run(self, clock, marks)


class Run:
    """One run of a pipeline: an iterator of the `Item`s that leave the last stage, in order.

    Threads start with the first item asked for. When the run ends, in any way (exhausted, failed,
    closed, end of the `with` block, garbage), all threads are cancelled and joined, and sources
    that wait are woken. An item that ended on its way comes in its place: `item.is_dropped`.

    Iterating raises:
        StageError: A stage or the source raised; `__cause__` is what it raised.
        HeadraceError: A stage or the source raised one: it arrives as itself, with a note that
            names the stage, so that a MediaError stays a MediaError.
    """

    def __init__(self, pipeline: Pipeline, clock: Clock, marks: Tracer) -> None:
        self._flow = FlowMeter()
        source = merged(pipeline.source)
        desks = [
            StageExecutor(
                pipeline.source_name,
                len(source.feeds),
                pipeline.source_capacity or pipeline.capacity,
                self._flow,
                clock,
                pipeline.overflow,
                pipeline.lanes,
            ),
            *(
                StageExecutor(stage.name, stage.workers, pipeline.capacity, self._flow, clock)
                for stage in pipeline.stages
            ),
        ]
        for desk in desks if pipeline.marks_source else desks[1:]:
            desk.marks = marks
        desks[0].waiters = [Waiter(clock) for _ in source.feeds]
        for stage, desk in zip(pipeline.stages, desks[1:], strict=True):
            if isinstance(stage, Aggregate):
                desk.room, desk.sheds = stage.room, stage.sheds
        self._desks = desks
        # Gets no reference to this object, so that a forgotten run is closed at once.
        self._items = _deliver(source, pipeline.stages, desks, self._flow)

    def __iter__(self) -> "Run":
        return self

    def __next__(self) -> Item[Any]:
        return next(self._items)

    def close(self) -> None:
        """Cancels and joins all threads. What they are working on is finished and thrown away."""
        self._items.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stages(self) -> tuple[StageStatistics, ...]:
        """What each stage did so far, the source first; also after the end."""
        queues = self.queues()
        starved = (0.0, *(queue.starved_seconds for queue in queues[:-1]))
        return tuple(
            desk.statistics(starved_seconds, queue.blocked_seconds)
            for desk, starved_seconds, queue in zip(self._desks, starved, queues, strict=True)
        )

    def flow(self) -> FlowStatistics:
        """What became of the items so far: arrived = delivered + dropped + in flight."""
        return self._flow.statistics()

    def queues(self) -> tuple[QueueStatistics, ...]:
        """How the queue behind each stage went so far, called like the stage that fills it.

        The last one is read by the consumer: its `starved_seconds` is what the consumer waited.
        """
        return tuple(desk.outbox.statistics() for desk in self._desks)


def _deliver(
    source: MergedSource,
    stages: Sequence[AnyStage[Any, Any]],
    desks: Sequence[StageExecutor],
    flow: FlowMeter,
) -> Generator[Item[Any], None, None]:
    def cancel() -> None:
        for desk in desks:
            desk.cancel()

    with ThreadGroup(cancel) as threads:
        for number in range(len(source.feeds)):
            name = desks[0].name if len(source.feeds) == 1 else f"{desks[0].name}-{number}"
            threads.start(name, partial(run_feed, desks[0], source, number))
        for number, stage in enumerate(stages, start=1):
            desk = desks[number]
            work = partial(run_stage, desk, work_of(stage, desk), desks[:number])
            for worker in range(stage.workers):
                threads.start(f"{stage.name}-{worker}", work)
        for item in desks[-1].outbox:
            if isinstance(item, FailedItem):
                raise item.error
            if not item.is_dropped:
                flow.deliver(item.parts)
            yield item
