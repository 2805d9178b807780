"""Tracing: named, numbered ranges around the work of threads.

Nothing is traced unless it is requested: `NO_OP_TRACER`, the default everywhere, does nothing.
"""

import os
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol

from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import Cancelled

_MAX_RANGES: Final = 50_000
"""Ranges that a recorder keeps, the latest: 10 MB."""


class Range(Protocol):
    """A range of one thread, from the start to the end of its `with` block."""

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def set_item(self, number: int, start_ns: int) -> None:
        """Set the item of a source's range, inside the block; its wait ended at `start_ns`."""


class Tracer(Protocol):
    """Makes ranges. Thread-safe; ranges of one thread are nested."""

    def range(self, stage: str, number: int) -> Range:
        """Return the range of a stage's work on item `number`.

        Several live sources number their items together: until an item has arrived, `number` is
        that of the next one.
        """

    def record_parts(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Record that item `number` of a stage consists of these items of the stage before."""


class NoOpTracer:
    """Tracer that records nothing: below a microsecond a range."""

    def range(self, stage: str, number: int) -> Range:
        """Return a range without effect."""
        return _NO_OP_RANGE

    def record_parts(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Record nothing."""


class _NoOpRange:
    __slots__ = ()

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return

    def set_item(self, number: int, start_ns: int) -> None:
        return


NO_OP_TRACER: Final[Tracer] = NoOpTracer()
_NO_OP_RANGE: Final = _NoOpRange()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRange:
    """A recorded range of one thread: [start_ns, end_ns), nanoseconds of the recorder's clock."""

    process_id: int
    thread_id: int
    """The operating system's id."""
    thread: str
    """The thread's name."""
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
        """Record no range that starts from now on; they then cost what `NoOpTracer`'s cost."""
        self._is_on = False

    @property
    def ranges(self) -> tuple[TimedRange, ...]:
        """The ranges, in the order of their ends; complete when the threads have ended."""
        return tuple(self._ranges)

    @property
    def parts(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """(stage, number) of each aggregated item -> the numbers of its parts."""
        return dict(self._parts)

    def range(self, stage: str, number: int) -> Range:
        """Return a range that is recorded when it ends, unless no item came."""
        return _RecordedRange(self, stage, number) if self._is_on else _NO_OP_RANGE

    def record_parts(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Record the parts of an item."""
        if self._is_on and len(self._parts) < _MAX_RANGES:
            self._parts[stage, number] = tuple(parts)

    def now_ns(self) -> int:
        """Return the time of the recorder's clock."""
        return self._clock.now_ns()

    def add(self, ended: TimedRange) -> None:
        """Add a range that has ended."""
        self._ranges.append(ended)


class _RecordedRange:
    __slots__ = ("_number", "_recorder", "_stage", "_start_ns")

    def __init__(self, recorder: RangeRecorder, stage: str, number: int) -> None:
        self._recorder = recorder
        self._stage = stage
        self._number = number
        self._start_ns = 0

    def __enter__(self) -> None:
        self._start_ns = self._recorder.now_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, Cancelled | StopIteration):
            return  # no item came
        self._recorder.add(
            TimedRange(
                process_id=os.getpid(),
                thread_id=threading.get_native_id(),
                thread=threading.current_thread().name.removeprefix("headrace-"),
                stage=self._stage,
                number=self._number,
                start_ns=self._start_ns,
                end_ns=self._recorder.now_ns(),
            )
        )

    def set_item(self, number: int, start_ns: int) -> None:
        self._number, self._start_ns = number, max(self._start_ns, start_ns)


class MultiTracer:
    """Tracer that passes everything on to several; ranges of the first enclose the others'."""

    def __init__(self, tracers: Sequence[Tracer]) -> None:
        self._tracers = tuple(tracers)

    def range(self, stage: str, number: int) -> Range:
        """Return a range of all tracers."""
        return _MultiRange([tracer.range(stage, number) for tracer in self._tracers])

    def record_parts(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Record the parts with all tracers."""
        for tracer in self._tracers:
            tracer.record_parts(stage, number, parts)


class _MultiRange:
    def __init__(self, ranges: Sequence[Range]) -> None:
        self._ranges = ranges
        self._stack = ExitStack()

    def __enter__(self) -> None:
        for traced in self._ranges:
            self._stack.enter_context(traced)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    def set_item(self, number: int, start_ns: int) -> None:
        for traced in self._ranges:
            traced.set_item(number, start_ns)
