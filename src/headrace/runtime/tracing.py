"""Tracing: named, numbered ranges around the work of threads.

By default nothing is traced: `NO_OP_TRACER` does nothing.
"""

import os
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import Cancelled

_MAX_RANGES: Final = 50_000
"""Number of latest ranges that a recorder keeps: 10 MB."""


class Range:
    """Range of a thread, from the start to the end of its `with` block."""

    __slots__ = ("number", "processors", "stage", "start_ns")

    def __init__(
        self, stage: str = "", number: int = 0, processors: Sequence["RangeProcessor"] = ()
    ) -> None:
        """Create the range of a stage's work on item `number`, not started yet."""
        self.stage, self.number, self.start_ns = stage, number, 0
        self.processors = processors

    def __enter__(self) -> None:
        for processor in self.processors:
            processor.on_start(self)

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        has_item = not isinstance(error, Cancelled | StopIteration)
        for processor in reversed(self.processors):
            processor.on_end(self, has_item=has_item)

    def set_item(self, number: int, start_ns: int) -> None:
        """Set the item of a source's range, inside the block; its wait ended at `start_ns`."""
        self.number, self.start_ns = number, max(self.start_ns, start_ns)


class RangeProcessor(Protocol):
    """Receives the ranges of all threads. Thread-safe."""

    def on_start(self, started: Range) -> None:
        """Handle the start of a range; may set its `start_ns`."""

    def on_end(self, ended: Range, *, has_item: bool) -> None:
        """Handle the end of a range; `has_item`: whether its source had an item."""


class Tracer(Protocol):
    """Creates ranges. Thread-safe; ranges of a thread are nested."""

    def range(self, stage: str, number: int) -> Range:
        """Return the range of a stage's work on item `number`.

        Merged sources number their items together: until an item has arrived, `number` is the
        number of the next one.
        """

    def record_parts(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Record the items of the stage before that item `number` of a stage consists of."""


class NoOpTracer:
    """Tracer that records nothing; takes below a microsecond per range."""

    def range(self, stage: str, number: int) -> Range:
        """Return a range without effect."""
        return _NO_OP_RANGE

    def record_parts(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Record nothing."""


NO_OP_TRACER: Final[Tracer] = NoOpTracer()
_NO_OP_RANGE: Final = Range()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRange:
    """Recorded range of a thread: [start_ns, end_ns), in nanoseconds of the recorder's clock."""

    process_id: int
    thread_id: int
    """Id by the operating system."""
    thread: str
    """Name of the thread."""
    stage: str
    number: int
    """Index of the item in its stage."""
    start_ns: int
    end_ns: int


class RangeRecorder:
    """Tracer that keeps the latest 50,000 ranges with their times. Thread-safe."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        """Record from now on."""
        self._clock = clock
        self._ranges: deque[TimedRange] = deque(maxlen=_MAX_RANGES)
        self._parts: dict[tuple[str, int], tuple[int, ...]] = {}
        self._is_on = True

    def stop(self) -> None:
        """Stop recording: ranges that start from now on cost as little as `NoOpTracer`'s."""
        self._is_on = False

    @property
    def ranges(self) -> tuple[TimedRange, ...]:
        """Ranges in the order of their ends; complete when the threads have ended."""
        return tuple(self._ranges)

    @property
    def parts(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """(stage, number) of each aggregated item -> numbers of its parts."""
        return dict(self._parts)

    def range(self, stage: str, number: int) -> Range:
        """Return a range that is recorded at its end, unless its source had no item."""
        return Range(stage, number, (self,)) if self._is_on else _NO_OP_RANGE

    def record_parts(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Record the parts of an item."""
        if self._is_on and len(self._parts) < _MAX_RANGES:
            self._parts[stage, number] = tuple(parts)

    def on_start(self, started: Range) -> None:
        """Set the start of a range: see `RangeProcessor`."""
        started.start_ns = self._clock.now_ns()

    def on_end(self, ended: Range, *, has_item: bool) -> None:
        """Record a range: see `RangeProcessor`."""
        if not has_item:
            return
        self._ranges.append(
            TimedRange(
                process_id=os.getpid(),
                thread_id=threading.get_native_id(),
                thread=threading.current_thread().name.removeprefix("headrace-"),
                stage=ended.stage,
                number=ended.number,
                start_ns=ended.start_ns,
                end_ns=self._clock.now_ns(),
            )
        )


class MultiTracer:
    """Tracer that forwards to several; ranges of the first enclose the others'."""

    def __init__(self, tracers: Sequence[Tracer]) -> None:
        self._tracers = tuple(tracers)

    def range(self, stage: str, number: int) -> Range:
        """Return a range of all tracers."""
        ranges = [tracer.range(stage, number) for tracer in self._tracers]
        return Range(stage, number, [p for traced in ranges for p in traced.processors])

    def record_parts(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Record the parts with all tracers."""
        for tracer in self._tracers:
            tracer.record_parts(stage, number, parts)
