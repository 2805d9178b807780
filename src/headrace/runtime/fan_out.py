"""Fan-out of results to several sinks, each with its own thread and queue."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from headrace.errors import ConfigError, HeadraceError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import BoundedQueue, Cancelled, Overflow, QueueStatistics
from headrace.runtime.stage import FlowMeter, Item, StageStatistics
from headrace.runtime.stage_executor import OVERFLOW, FailedItem, StageExecutor
from headrace.runtime.synchronization import ThreadGroup
from headrace.runtime.tracing import NO_OP_TRACER, Tracer
from headrace.runtime.waitable_source import Waiter

T = TypeVar("T")

SINK_FAILED: Final = "sink failed"
"""Cause of a drop: the sink has failed."""
UNFINISHED: Final = "unfinished"
"""Cause of a drop: the sink was stopped before it handled the result."""


@dataclass(frozen=True, kw_only=True)
class SinkSpec(Generic[T]):
    """Description of a sink."""

    name: str
    function: Callable[[T], object]
    """Called with each result, in order, in the sink's thread."""
    capacity: int = 2
    """Capacity of its queue, in results."""
    overflow: Overflow = "wait"
    """Policy for a full queue. "wait" blocks the caller, so that the sink gets all results: for a
    file. "drop_oldest" never blocks: for a live view."""


class FanOut(Generic[T]):
    """Passes every result to every sink: `with FanOut(sinks) as fan: fan.put(result)`.

    At the end of the block, in any case, sinks finish their queues and their threads end. If a sink
    fails, its later results are counted as dropped, the other sinks continue, and the error is
    raised at the end of the block. Further errors of sinks are added to it as notes. If the block
    itself raises, the errors of sinks are added to that exception as notes.

    Leaving the block raises:
        StageError: a sink raised an exception, which is the `__cause__`.
        HeadraceError: a sink raised it; a note names the sink.
    """

    def __init__(
        self,
        sinks: Sequence[SinkSpec[T]],
        *,
        drain_seconds: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
        tracer: Tracer = NO_OP_TRACER,
    ) -> None:
        """Start no thread before the block begins.

        Args:
            sinks: The sinks; may be empty.
            drain_seconds: Time limit for the queues at the end; remaining results are counted as
                dropped. A sink that hangs for as long again is abandoned, with a warning. None: no
                limit.
            clock: Clock of the statistics.
            tracer: Tracer of each result that a sink handles, numbered per sink.

        Raises:
            ConfigError: two sinks have the same name, a capacity is below 1, or an overflow is
                unknown.
        """
        names = [sink.name for sink in sinks]
        if len(set(names)) < len(names):
            raise ConfigError(f"sinks need different names, got {', '.join(names)}")
        self._changed = Waiter(clock)
        self._lanes = [_SinkLane(sink, clock, tracer, self._changed.notify) for sink in sinks]
        self._drain_seconds = drain_seconds
        self._clock = clock
        self._threads = ThreadGroup(self._cancel, drain_seconds)

    def put(self, result: T) -> None:
        """Put a result into all queues; wait for room only in queues with overflow "wait".

        Each sink gets it as soon as its queue has room. For one thread at a time.
        """
        start_ns = self._clock.now_ns()
        full = [lane for lane in self._lanes if not lane.put_at_once(result)]
        while full:
            self._changed.wait_for(lambda: any(lane.has_room() for lane in full))  # noqa: B023
            blocked_ns = self._clock.now_ns() - start_ns
            full = [lane for lane in full if not lane.put_at_once(result, blocked_ns)]

    def failures(self) -> dict[str, HeadraceError]:
        """Return sink name -> error of each failed sink."""
        return {lane.sink.name: lane.error for lane in self._lanes if lane.error is not None}

    def statistics(self) -> tuple[StageStatistics, ...]:
        """Return the counters of each sink so far, in order; also after the end."""
        return tuple(
            lane.executor.statistics(lane.queue.statistics().starved_seconds, 0.0)
            for lane in self._lanes
        )

    def queues(self) -> tuple[QueueStatistics, ...]:
        """Return the statistics of each sink's queue; `blocked_seconds` is the wait of `put`."""
        return tuple(
            replace(lane.queue.statistics(), blocked_seconds=lane.blocked_ns / 1e9)
            for lane in self._lanes
        )

    def __enter__(self) -> "FanOut[T]":
        self._threads.__enter__()
        for lane in self._lanes:
            self._threads.start(f"sink-{lane.sink.name}", lane.run)
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        try:
            self._drain()
        finally:
            self._threads.close()
            for lane in self._lanes:
                lane.count_unfinished()
        failures = list(self.failures().values())
        first = failures.pop(0) if error is None and failures else error
        for failure in failures:
            if first is not None:
                first.add_note(f"and another sink failed: {failure}")
        if error is None and first is not None:
            raise first

    def _drain(self) -> None:
        for lane in self._lanes:
            lane.queue.close()
        seconds = self._drain_seconds
        until_ns = None if seconds is None else self._clock.now_ns() + round(seconds * 1e9)
        self._changed.wait_for(lambda: all(lane.is_over for lane in self._lanes), until_ns=until_ns)

    def _cancel(self) -> None:
        for lane in self._lanes:
            lane.queue.cancel()


class _SinkLane(Generic[T]):
    """One sink with its queue and counters."""

    def __init__(
        self, sink: SinkSpec[T], clock: Clock, tracer: Tracer, on_change: Callable[[], None]
    ) -> None:
        self.sink = sink
        self.error: HeadraceError | None = None
        self.is_over = False
        self._on_change = on_change
        self._flow = FlowMeter()
        self.executor = StageExecutor(
            name=sink.name,
            workers=1,
            capacity=sink.capacity,
            flow=self._flow,
            clock=clock,
            tracer=tracer,
            overflow=sink.overflow,
        )
        self.queue: BoundedQueue[tuple[T]] = self.executor.queue
        self.blocked_ns = 0

    def has_room(self) -> bool:
        """Return whether `put` does not have to wait."""
        return self.sink.overflow != "wait" or self.queue.has_room()

    def put_at_once(self, result: T, blocked_ns: int = 0) -> bool:
        """Put a result into the queue, unless it is full; return whether it was put."""
        if not self.has_room():
            return False
        self.blocked_ns += blocked_ns
        self._flow.arrive()
        try:
            if self.queue.put((result,)) is not None:
                self._drop(OVERFLOW, 1)
        except Cancelled:
            self._drop(SINK_FAILED, 1)
        return True

    def run(self) -> None:
        try:
            with self.executor.ended.measured(), suppress(Cancelled):
                for number, (result,) in enumerate(self.queue):
                    self._on_change()
                    outcome = self.executor.attempt(self.sink.function, Item(number, result, ()))
                    if isinstance(outcome, FailedItem):
                        self.error = outcome.error
                        return
                    self.executor.count_item(outcome)
                    self._flow.deliver(1)
        finally:
            self.queue.cancel()
            self.is_over = True
            self._on_change()

    def count_unfinished(self) -> None:
        """Count remaining results as dropped, after the end of the thread."""
        unfinished = self._flow.statistics().in_flight
        if unfinished:
            self._drop(SINK_FAILED if self.error is not None else UNFINISHED, unfinished)

    def _drop(self, cause: str, items: int) -> None:
        self._flow.drop(self.sink.name, cause, items)
