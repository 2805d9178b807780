"""Marks: named, numbered ranges around the work of threads, for whoever looks on.

Nothing is marked unless somebody asks for it: `NO_MARKS`, the default everywhere, does nothing.
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

_MOST_KEPT: Final = 50_000
"""Ranges that a recorder holds: 10 MB; older ones go first."""


class Range(Protocol):
    """A range of one thread: it begins and ends with the `with` block, however that ends."""

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def arrived(self, number: int, since_ns: int) -> None:
        """Tell of a source, inside the block: item `number` came, its wait ended at `since_ns`."""


class Tracer(Protocol):
    """Hears what each thread works on. Thread-safe; ranges of one thread are nested."""

    def range(self, stage: str, number: int) -> Range:
        """Return the range of a stage's work on item `number`.

        Several live sources share their numbers: the number of one is known when it has come, and
        until then it is the next one.
        """

    def gathered(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Hear that item `number` of this stage is made of these of the stages before."""


class _NoMark:
    __slots__ = ()

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return

    def arrived(self, number: int, since_ns: int) -> None:
        return


_NO_MARK: Final = _NoMark()


class NoOpTracer:
    """Marks nothing: below a microsecond a range."""

    def range(self, stage: str, number: int) -> Range:
        """Return a range that nobody hears of."""
        return _NO_MARK

    def gathered(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Keep nothing."""


NO_MARKS: Final[Tracer] = NoOpTracer()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRange:
    """What one thread did from `start_ns` to `end_ns`, in nanoseconds of the recorder's clock."""

    process_id: int
    thread_id: int
    """As the system numbers threads."""
    thread: str
    """Its name."""
    stage: str
    number: int
    """Of the item, as its stage counts them."""
    start_ns: int
    end_ns: int


class RangeRecorder:
    """Marks that are kept, with their times: the latest 50,000 of them. Thread-safe."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        """Records from now on."""
        self._clock = clock
        self._kept: deque[TimedRange] = deque(maxlen=_MOST_KEPT)
        self._parts: dict[tuple[str, int], tuple[int, ...]] = {}
        self._is_on = True

    def stop(self) -> None:
        """Record none that begins from now on; they cost what they do without marks."""
        self._is_on = False

    @property
    def ranges(self) -> tuple[TimedRange, ...]:
        """What was recorded, in the order it ended; ask when the threads are done."""
        return tuple(self._kept)

    @property
    def parts(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """(stage, number) of each gathered item -> the numbers of what it is made of."""
        return dict(self._parts)

    def range(self, stage: str, number: int) -> Range:
        """Return a range that is kept when it ends; a wait for what never came is not."""
        return _Recording(self, stage, number) if self._is_on else _NO_MARK

    def gathered(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Keep what an item is made of."""
        if self._is_on and len(self._parts) < _MOST_KEPT:
            self._parts[stage, number] = tuple(parts)

    def now_ns(self) -> int:
        """Return the time by the recorder's clock."""
        return self._clock.now_ns()

    def keep(self, found: TimedRange) -> None:
        """Add a range that has ended; it began before the recorder stopped."""
        self._kept.append(found)


class _Recording:
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
            return  # nothing came
        self._recorder.keep(
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

    def arrived(self, number: int, since_ns: int) -> None:
        self._number, self._start_ns = number, max(self._start_ns, since_ns)


class MultiTracer:
    """Marks for several listeners at once."""

    def __init__(self, listeners: Sequence[Tracer]) -> None:
        """Each hears of every range; those of the first enclose the others'."""
        self._listeners = tuple(listeners)

    def range(self, stage: str, number: int) -> Range:
        """Return a range of all of them."""
        return _SeveralMark([each.range(stage, number) for each in self._listeners])

    def gathered(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Tell all of them."""
        for each in self._listeners:
            each.gathered(stage, number, parts)


class _SeveralMark:
    def __init__(self, marks: Sequence[Range]) -> None:
        self._marks = marks
        self._open = ExitStack()

    def __enter__(self) -> None:
        for mark in self._marks:
            self._open.enter_context(mark)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.__exit__(kind, error, traceback)

    def arrived(self, number: int, since_ns: int) -> None:
        for mark in self._marks:
            mark.arrived(number, since_ns)
