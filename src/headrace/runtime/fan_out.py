"""Results to several sinks, each in a thread of its own behind a queue of its own."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Generic, TypeVar

from headrace.errors import ConfigError, HeadraceError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.flow_statistics import FlowMeter
from headrace.runtime.item import Item
from headrace.runtime.queue import BoundedQueue, Cancelled, Overflow, QueueStatistics
from headrace.runtime.stage import StageStatistics
from headrace.runtime.stage_executor import OVERFLOW, explained
from headrace.runtime.threads import ThreadGroup
from headrace.runtime.tracing import NO_MARKS, Tracer
from headrace.runtime.waitable_source import Waiter

T = TypeVar("T")

SINK_FAILED: Final = "sink failed"
"""Why a sink does not get what comes after its failure."""
UNFINISHED: Final = "unfinished"
"""Why a sink does not get what it had no time for at the end."""


@dataclass(frozen=True, kw_only=True)
class SinkSpec(Generic[T]):
    """A place where results go."""

    name: str
    function: Callable[[T], object]
    """Takes one result; called in the sink's own thread, in order."""
    capacity: int = 2
    """Results that may wait for it."""
    overflow: Overflow = "wait"
    """What a result does that finds its queue full. "wait" holds everybody back, so that the sink
    gets all: for a file. The others never hold anybody: for what is watched."""


class FanOut(Generic[T]):
    """Hands every result to every sink: `with FanOut(sinks) as fan: fan.put(result)`.

    At the end of the block, however it ends, sinks finish what waits for them, and their threads
    end. A sink that fails ends alone: what comes later passes it by and is counted, the others go
    on, and its error is raised when the block ends; with several, the others' are its notes. Where
    the block itself ends with an error, the sinks' are notes of that one.

    Leaving the block raises:
        StageError: a sink raised; `__cause__` is what it raised.
        HeadraceError: a sink raised one: it arrives as itself, with a note that names the sink.
    """

    def __init__(
        self,
        sinks: Sequence[SinkSpec[T]],
        *,
        drain_seconds: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
        marks: Tracer = NO_MARKS,
    ) -> None:
        """No thread runs before the block begins.

        Args:
            sinks: Where results go; none is fine.
            drain_seconds: How long sinks have at the end for what waits for them; what is left then
                is counted. One that hangs for as long again is left behind, with a warning. None:
                as long as it takes.
            clock: Tells how long sinks work and wait.
            marks: Hear of each result that a sink takes, counted by the sink.

        Raises:
            ConfigError: two sinks have one name, a capacity is below 1, an overflow is unknown.
        """
        names = [sink.name for sink in sinks]
        if len(set(names)) < len(names):
            raise ConfigError(f"sinks need different names, got {', '.join(names)}")
        self._changed = Waiter(clock)
        self._lines = [_Line(sink, clock, marks, self._changed.notify) for sink in sinks]
        self._drain_seconds = drain_seconds
        self._clock = clock
        self._threads = ThreadGroup(self._cancel, drain_seconds)

    def put(self, result: T) -> None:
        """Hands a result to all; waits for those that hold everybody back, for no others.

        Each gets it as soon as it has room, whoever else has none. For one thread at a time.
        """
        start_ns = self._clock.now_ns()
        full = [line for line in self._lines if not line.put_at_once(result)]
        while full:
            self._wait_for_room(full)
            blocked_ns = self._clock.now_ns() - start_ns
            full = [line for line in full if not line.put_at_once(result, blocked_ns)]

    def failures(self) -> dict[str, HeadraceError]:
        """Name of each sink that failed so far, and why."""
        return {line.sink.name: line.error for line in self._lines if line.error is not None}

    def statistics(self) -> tuple[StageStatistics, ...]:
        """What each sink did so far, in the order they were given; also after the end."""
        return tuple(line.statistics() for line in self._lines)

    def queues(self) -> tuple[QueueStatistics, ...]:
        """How the queue of each sink went so far; its `blocked_seconds` is what it held us back."""
        return tuple(line.queue_statistics() for line in self._lines)

    def __enter__(self) -> "FanOut[T]":
        self._threads.__enter__()
        for line in self._lines:
            self._threads.start(f"sink-{line.sink.name}", line.run)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._drain()
        finally:
            self._threads.close()
            for line in self._lines:
                line.count_rest()
        failures = list(self.failures().values())
        first = failures.pop(0) if error is None and failures else error
        for failure in failures:
            if first is not None:
                first.add_note(f"and another sink failed: {failure}")
        if error is None and first is not None:
            raise first

    def _wait_for_room(self, lines: "Sequence[_Line[T]]") -> None:
        self._changed.wait_for(lambda: any(line.has_room() for line in lines))

    def _drain(self) -> None:
        for line in self._lines:
            line.queue.close()
        seconds = self._drain_seconds
        until_ns = None if seconds is None else self._clock.now_ns() + round(seconds * 1e9)
        self._changed.wait_for(lambda: all(line.is_over for line in self._lines), until_ns=until_ns)

    def _cancel(self) -> None:
        for line in self._lines:
            line.queue.cancel()


class _Line(Generic[T]):
    """One sink with its queue."""

    def __init__(
        self, sink: SinkSpec[T], clock: Clock, marks: Tracer, on_change: Callable[[], None]
    ) -> None:
        self.sink = sink
        self._marks = marks
        self.queue: BoundedQueue[tuple[T]] = BoundedQueue(
            sink.capacity, sink.name, clock=clock, overflow=sink.overflow
        )
        self.error: HeadraceError | None = None
        self.is_over = False
        self._on_change = on_change
        self._clock = clock
        self._flow = FlowMeter()
        self._busy_ns = self._blocked_ns = 0

    def has_room(self) -> bool:
        """Whether it takes a result without a wait."""
        return self.sink.overflow != "wait" or self.queue.has_room()

    def put_at_once(self, result: T, blocked_ns: int = 0) -> bool:
        """Hand it over, unless it had to wait; say whether that is done."""
        if not self.has_room():
            return False
        self._blocked_ns += blocked_ns
        self._flow.arrive()
        try:
            if self.queue.put((result,)) is not None:
                self._drop(OVERFLOW, 1)
        except Cancelled:
            self._drop(SINK_FAILED, 1)
        return True

    def run(self) -> None:
        try:
            with suppress(Cancelled):
                for number, (result,) in enumerate(self.queue):
                    self._on_change()
                    if not self._give(number, result):
                        return
        finally:
            self.queue.cancel()
            self.is_over = True
            self._on_change()

    def count_rest(self) -> None:
        """The thread has ended: what it did not come to is lost."""
        rest = self._flow.statistics().in_flight
        if rest:
            self._drop(SINK_FAILED if self.error is not None else UNFINISHED, rest)

    def statistics(self) -> StageStatistics:
        return StageStatistics(
            name=self.sink.name,
            workers=1,
            items=self._flow.statistics().delivered,
            busy_seconds=self._busy_ns / 1e9,
            starved_seconds=self.queue.statistics().starved_seconds,
            blocked_seconds=0.0,
            dropped=self._flow.dropped_at(self.sink.name),
        )

    def queue_statistics(self) -> QueueStatistics:
        return replace(self.queue.statistics(), blocked_seconds=self._blocked_ns / 1e9)

    def _give(self, number: int, result: T) -> bool:
        start_ns = self._clock.now_ns()
        try:
            with self._marks.range(self.sink.name, number):
                self.sink.function(result)
        except BaseException as error:  # noqa: BLE001 - it is raised in the consumer's thread
            self.error = explained(error, self.sink.name, Item(number, result, ()))
            return False
        self._busy_ns += self._clock.now_ns() - start_ns
        self._flow.deliver(1)
        return True

    def _drop(self, cause: str, items: int) -> None:
        self._flow.drop(self.sink.name, cause, items)
