"""Parts of a training step, such as forward, backward and optimizer, and their times."""

from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import torch

from headrace.runtime.clock import (
    SYSTEM_CLOCK,
    Clock,
    this_thread,
    this_thread_of_system,
    thread_cpu_ns,
)

FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"
COPY, COLLECTIVE = "copy to a device", "collectives"
CHECKPOINT, LOGGING = "checkpointing", "logging"
NO_GRADIENTS: Final = "forward without gradients"
"""Forward of an evaluation, of inference, or of a frozen part of a model."""
INNER_LOADER: Final = "batches of another loader"
"""Waits of a nested loop inside the step, such as an evaluation."""
REST: Final = "rest"
"""Time of a step outside of all other parts."""
LOADING: Final = "loading"
"""Time from the request for a batch to its arrival; not a part of a step."""


def record_cuda_event() -> Any:
    """Return an event on the current stream; None if CUDA is unused, or captures a graph."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return None
    try:
        if torch.cuda.is_current_stream_capturing():
            return None
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
    except RuntimeError:  # an earlier kernel failed; a CUDA call of the user reports it
        return None
    return event


class EventPairs:
    """Pairs of CUDA events; the time between them is read when the GPU has reached both."""

    def __init__(self) -> None:
        """Start without pairs."""
        self._pending: deque[tuple[Any, Any, Callable[[float], object]]] = deque()

    def add(self, start: Any, end: Any, use: Callable[[float], object]) -> None:
        """Add a pair; `use` gets its milliseconds later. Without one of the events, do nothing."""
        if start is not None and end is not None:
            self._pending.append((start, end, use))

    def collect(self) -> None:
        """Read the pairs that the GPU has reached; a pair on two GPUs is dropped."""
        while self._pending:
            start, end, use = self._pending[0]
            with suppress(RuntimeError):
                if not end.query():
                    return
                use(max(0.0, float(start.elapsed_time(end))))
            self._pending.popleft()

    def finish(self) -> None:
        """Wait for the last event, and read all pairs."""
        if self._pending:
            with suppress(RuntimeError):
                self._pending[-1][1].synchronize()
            self.collect()


class Place(NamedTuple):
    """A line of the user's code."""

    location: str
    """`train.py:42`."""
    function: str
    in_optimizer: bool = False
    """Whether the line is in the step of an optimizer of the user."""


class Sample(NamedTuple):
    """State of the loop's thread at one moment."""

    part: str
    place: Place | None
    awaits_gil: bool | None
    """Whether the thread waits for the GIL; None: not known."""


class Span:
    """A step (from the arrival of a batch to the next request), or the wait for a batch."""

    __slots__ = ("depth", "device", "samples", "thread", "times")

    def __init__(self, thread: "_Thread") -> None:
        """Start an empty span in `thread`."""
        self.thread = thread
        self.depth = len(thread.open)
        """Number of open parts around the span."""
        self.device: list[tuple[str, Any, Any]] = []
        """(part, CUDA event before it, CUDA event after it)."""
        self.times: dict[str, list[int]] = {}
        """Part → [wall-clock time, CPU time of the thread], in ns, without parts inside it."""
        self.samples: list[Sample] = []


class _Thread:
    """State of one thread that runs a loop."""

    __slots__ = ("ident", "mark", "native_id", "open", "spans", "waiting")

    def __init__(self, ident: int, native_id: int) -> None:
        self.ident, self.native_id = ident, native_id
        self.open: list[tuple[str, Any]] = []
        """Open parts, the outermost first: (part, CUDA event before it)."""
        self.spans: list[Span] = []
        """Open steps; more than one if a loop is inside a step."""
        self.waiting: Span | None = None
        """Open wait for a batch."""
        self.mark = (0, 0)
        """(wall-clock time, CPU time) up to which time is attributed to parts."""

    @property
    def current(self) -> str:
        """The innermost open part."""
        return self.open[-1][0] if self.open else REST


def _splits(name: str, around: str) -> bool:
    """Return whether the part `name` is timed separately from the part `around` it."""
    if around in (OPTIMIZER, REST):
        return True
    return name == COLLECTIVE and around in (FORWARD, BACKWARD)


class StepParts:
    """Times of the parts of all steps of a process; about 3 µs per part.

    A step belongs to the thread of its loop. Parts do not overlap: a forward inside a backward
    counts as backward. The closure of an optimizer, and collectives, are timed separately.
    """

    def __init__(
        self,
        clock: Clock = SYSTEM_CLOCK,
        cpu_ns: Callable[[], int] = thread_cpu_ns,
        new_event: Callable[[], Any] = record_cuda_event,
    ) -> None:
        """Start without steps; `new_event` returns a recorded event, or None without a GPU."""
        self.clock = clock
        self._cpu_ns, self._new_event = cpu_ns, new_event
        self.inside = 0
        """Identifier of the thread that is inside a part, in which modules are not timed, or 0."""
        self._threads: dict[int, _Thread] = {}
        self._latest: _Thread | None = None
        """Thread of the latest request for a batch, or of the latest arrival."""

    def begin(self, now_ns: int | None = None) -> Span:
        """Begin a step in this thread; `now_ns`: a reading of the clock; None: read it."""
        thread = self._this_thread()
        thread.waiting = None
        self._attribute(thread, now_ns=now_ns)
        span = Span(thread)
        thread.spans.append(span)
        return span

    def end(self, span: Span, now_ns: int | None = None) -> Span:
        """End a step or a wait, with all of its open parts; return it. `now_ns`: see `begin`.

        A span may end in another thread, for example if the iterator of its loop is destroyed
        there.
        """
        thread = span.thread
        if thread.waiting is span:
            thread.waiting = None
        if span in thread.spans:
            if thread.ident == this_thread():
                self._attribute(thread, now_ns=now_ns)
            del thread.spans[thread.spans.index(span) :]
            del thread.open[span.depth :]
            self.inside = 0
        return span

    def wait(self) -> Span:
        """Begin a wait for a batch in this thread; the next `begin` ends it."""
        thread = self._this_thread()
        thread.waiting = span = Span(thread)
        return span

    def now(self) -> tuple[int, int, list[tuple[Span, str]]] | None:
        """Return (thread id of Python, of the system, [(span, its part)]) of the latest loop.

        Any thread may call it. None: no loop is in a step or waits for a batch.
        """
        thread = self._latest
        if thread is None:
            return None
        waiting, steps, part = thread.waiting, [*thread.spans], thread.current
        spans = [(span, part if waiting is None else INNER_LOADER) for span in steps]
        if waiting is not None:
            spans.append((waiting, LOADING))
        return (thread.ident, thread.native_id, spans) if spans else None

    def enter(self, name: str) -> bool:
        """Begin a part in this thread; return whether it is timed separately, inside a step."""
        thread = self._threads.get(this_thread())
        if thread is None or not thread.spans or not _splits(name, thread.current):
            return False
        self._attribute(thread)
        thread.open.append((name, self._new_event()))
        self.inside = 0 if name in (OPTIMIZER, REST) else thread.ident
        return True

    def leave(self, name: str, actual: str | None = None) -> None:
        """End a part for which `enter` returned True; does nothing if its step has ended.

        Args:
            name: Name at `enter`.
            actual: Part that gets the time, if it is another one.
        """
        thread = self._threads.get(this_thread())
        if thread is None or not thread.open or thread.current != name:
            return
        self._attribute(thread, actual or name)
        _, started = thread.open.pop()
        self.inside = 0
        if started is not None and actual is None:
            ended = self._new_event()
            for span in thread.spans:
                span.device.append((name, started, ended))

    def call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of `function`; the call is timed as a part."""
        if not self.enter(name):
            return function(*arguments)
        try:
            return function(*arguments)
        finally:
            self.leave(name)

    def _this_thread(self) -> _Thread:
        ident, native_id = this_thread(), this_thread_of_system()
        thread = self._threads.get(ident)
        if thread is None or thread.native_id != native_id:
            thread = self._threads[ident] = _Thread(ident, native_id)
        self._latest = thread
        return thread

    def _attribute(
        self, thread: _Thread, name: str | None = None, now_ns: int | None = None
    ) -> None:
        """Add the time since the last call to the innermost part, in all open steps."""
        now_ns = self.clock.now_ns() if now_ns is None else now_ns
        now, last = (now_ns, self._cpu_ns()), thread.mark
        thread.mark = now
        name = name or thread.current
        for span in thread.spans:
            times = span.times.get(name)
            if times is None:
                times = span.times[name] = [0, 0]
            times[0] += now[0] - last[0]
            times[1] += now[1] - last[1]


PARTS: Final = StepParts()
"""Parts of the steps of this process."""


@dataclass
class PartTotal:
    """Total time of one part, over all steps."""

    steps: int = 0
    """Number of steps with the part."""
    wall_ns: int = 0
    cpu_ns: int = 0
    """CPU time of the loop's thread."""
    device_ms: float | None = None
    """Time between the CUDA events around the part; None without a GPU."""
    gil_samples: int = 0
    """Samples with a known state: waits for the GIL, or does not."""
    gil_waits: int = 0
    """Samples in which the thread waits for the GIL."""

    def add(self, other: "PartTotal") -> None:
        """Add the time over further steps."""
        self.steps += other.steps
        self.wall_ns += other.wall_ns
        self.cpu_ns += other.cpu_ns
        if other.device_ms is not None:
            self.device_ms = (self.device_ms or 0.0) + other.device_ms
        self.gil_samples += other.gil_samples
        self.gil_waits += other.gil_waits


@dataclass
class StepTotals:
    """Total times and samples over all measured steps of a loop."""

    parts: dict[str, PartTotal] = field(default_factory=dict)
    places: Counter[tuple[str, Place]] = field(default_factory=Counter)
    """(part, place) → samples."""
    samples: Counter[str] = field(default_factory=Counter)
    """Part → samples."""
    _pairs: EventPairs = field(default_factory=EventPairs)

    def add(self, span: Span) -> None:
        """Add an ended step or wait."""
        for name, start, end in span.device:
            self._pairs.add(start, end, partial(self._add_device_ms, name))
        self._pairs.collect()
        for name, (wall_ns, cpu_ns) in span.times.items():
            part = self.parts.get(name) or self.parts.setdefault(name, PartTotal())
            part.steps += 1
            part.wall_ns += wall_ns
            part.cpu_ns += cpu_ns
        for sample in span.samples:
            self.samples[sample.part] += 1
            if sample.place is not None:
                self.places[sample.part, sample.place] += 1
            if sample.awaits_gil is not None:
                self._add(sample.part, PartTotal(gil_samples=1, gil_waits=int(sample.awaits_gil)))

    def merge(self, other: "StepTotals") -> None:
        """Add the totals of further steps."""
        self.places.update(other.places)
        self.samples.update(other.samples)
        for name, part in other.parts.items():
            self._add(name, part)

    def finish(self) -> None:
        """Wait for the last CUDA event."""
        self._pairs.finish()

    def _add(self, name: str, part: PartTotal) -> None:
        self.parts.setdefault(name, PartTotal()).add(part)

    def _add_device_ms(self, name: str, device_ms: float) -> None:
        self._add(name, PartTotal(device_ms=device_ms))
