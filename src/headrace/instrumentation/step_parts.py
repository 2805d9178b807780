"""Parts of a training step: how long forward, backward, optimizer and others take in a step."""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
"""An evaluation, the model of a loop that does not train, or a frozen part of a model."""
INNER_LOADER: Final = "batches of another loader"
"""Waits of a loop inside the step, as an evaluation has."""
REST: Final = "rest"
"""Time of a step in none of the other parts."""
LOADING: Final = "loading"
"""Between the request for a batch and its arrival; no part of a step."""


def record_cuda_event() -> Any:
    """Return an event of the current stream; None where CUDA is not in use."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return None
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


class Place(NamedTuple):
    """A line of the user's code."""

    location: str
    """`train.py:42`."""
    function: str


class Sample(NamedTuple):
    """State of the loop's thread at one moment."""

    part: str
    place: Place | None
    gil_wait_ns: int | None
    """Its wait for the GIL since the last sample; None: not known."""


class Span:
    """Time from the arrival of a batch to the next request, or from a request to the arrival."""

    __slots__ = ("depth", "device", "samples", "times")

    def __init__(self, depth: int = 0) -> None:
        """Start empty; `depth` is the number of parts that are open around it."""
        self.depth = depth
        self.device: list[tuple[str, Any, Any]] = []
        """Parts with the CUDA events before and after them."""
        self.times: dict[str, list[int]] = {}
        """Part → wall clock and CPU time of the thread in ns, without parts inside it."""
        self.samples: list[Sample] = []


class _Thread:
    """State of one thread that runs a loop."""

    __slots__ = ("mark", "native_id", "open", "spans", "waiting")

    def __init__(self) -> None:
        self.native_id = this_thread_of_system()
        self.open: list[tuple[str, Any]] = []
        """Parts that have begun, the outermost first, with the CUDA event before them."""
        self.spans: list[Span] = []
        """Steps that have begun: several with a loop inside a step."""
        self.waiting: Span | None = None
        self.mark = (0, 0)
        """Wall clock and CPU time up to which time is attributed."""

    @property
    def current(self) -> str:
        """The innermost part."""
        return self.open[-1][0] if self.open else REST


def _splits(name: str, around: str) -> bool:
    """Return whether a part inside another is attributed to itself."""
    if around == OPTIMIZER:
        return name != OPTIMIZER
    return name == COLLECTIVE and around in (FORWARD, BACKWARD)


class StepParts:
    """Parts of the steps of all loops of a process, each in the thread of its loop.

    Parts do not overlap: a forward inside a backward belongs to the backward. What an optimizer
    calls as its closure, and a collective, are parts of their own. About 2 µs a part.
    """

    def __init__(
        self,
        clock: Clock = SYSTEM_CLOCK,
        cpu_ns: Callable[[], int] = thread_cpu_ns,
        new_event: Callable[[], Any] = record_cuda_event,
    ) -> None:
        """Attribute nothing yet; `new_event` returns a recorded event, or None without a GPU."""
        self._clock, self._cpu_ns, self._new_event = clock, cpu_ns, new_event
        self.is_inside = False
        """Whether the thread that began or ended a part last is inside one."""
        self._threads: dict[int, _Thread] = {}
        self._latest: tuple[int, _Thread] | None = None
        """Thread in which a loop last asked for a batch or got one, with its identifier."""

    def begin(self) -> Span:
        """Begin a step in this thread."""
        thread = self._this_thread()
        thread.waiting = None
        self._attribute(thread)
        span = Span(len(thread.open))
        thread.spans.append(span)
        return span

    def end(self, span: Span) -> Span:
        """End a step or a wait of this thread, and return it; parts left open end with it."""
        thread = self._this_thread()
        if thread.waiting is span:
            thread.waiting = None
        if span in thread.spans:
            self._attribute(thread)
            del thread.spans[thread.spans.index(span) :]
            del thread.open[span.depth :]
            self.is_inside = False
        return span

    def wait(self) -> Span:
        """Begin a wait for a batch in this thread, which ends with the next `begin`."""
        thread = self._this_thread()
        thread.waiting = span = Span()
        return span

    def now(self) -> tuple[int, int, Span, str] | None:
        """Return the thread of the latest loop, by both of its identifiers, its span and part.

        For any thread. None: no loop is in a step or waits for a batch.
        """
        if self._latest is None:
            return None
        ident, thread = self._latest
        if (waiting := thread.waiting) is not None:
            return ident, thread.native_id, waiting, LOADING
        try:
            return ident, thread.native_id, thread.spans[-1], thread.current
        except IndexError:  # also where a part ends at this moment
            return None

    def enter(self, name: str) -> bool:
        """Begin a part in this thread; False: it belongs to the part around it, or to no step."""
        thread = self._threads.get(this_thread())
        if (
            thread is None
            or not thread.spans
            or (thread.open and not _splits(name, thread.current))
        ):
            return False
        self._attribute(thread)
        thread.open.append((name, self._new_event()))
        self.is_inside = name != OPTIMIZER
        return True

    def leave(self, name: str, found: str | None = None) -> None:
        """End a part for which `enter` returned True; nothing if its step has ended.

        Args:
            name: Its name.
            found: The name that it has by what happened in it, by default `name`.
        """
        thread = self._threads.get(this_thread())
        if thread is None or thread.current != name:
            return
        _, started = thread.open.pop()
        self.is_inside = False
        self._attribute(thread, found or name)
        if started is not None and found is None:
            ended = self._new_event()
            for span in thread.spans:
                span.device.append((name, started, ended))

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Attribute the block to a part."""
        is_entered = self.enter(name)
        try:
            yield
        finally:
            if is_entered:
                self.leave(name)

    def _this_thread(self) -> _Thread:
        ident = this_thread()
        thread = self._threads.get(ident)
        if thread is None or thread.native_id != this_thread_of_system():
            thread = self._threads[ident] = _Thread()
        self._latest = ident, thread
        return thread

    def _attribute(self, thread: _Thread, name: str | None = None) -> None:
        """Add the time since the last call to the innermost part of all open steps."""
        now, last = (self._clock.now_ns(), self._cpu_ns()), thread.mark
        thread.mark = now
        name = name or thread.current
        for span in thread.spans:
            times = span.times.get(name)
            if times is None:
                times = span.times[name] = [0, 0]
            times[0] += now[0] - last[0]
            times[1] += now[1] - last[1]


PARTS: Final = StepParts()
"""Parts of this process."""


@dataclass
class PartTotal:
    """Time of one part over steps."""

    steps: int = 0
    """Steps with it."""
    wall_ns: int = 0
    cpu_ns: int = 0
    """CPU time of the loop's thread."""
    device_ms: float | None = None
    """Time between CUDA events around it; None without a GPU."""
    gil_wait_ns: int | None = None
    """Wait for the GIL; None: not known."""


@dataclass
class StepTotals:
    """Parts and places of all measured steps of a loop."""

    parts: dict[str, PartTotal] = field(default_factory=dict)
    places: Counter[tuple[str, Place]] = field(default_factory=Counter)
    """(part, place) → samples."""
    samples: Counter[str] = field(default_factory=Counter)
    """Part → samples."""
    _pending: deque[tuple[str, Any, Any]] = field(default_factory=deque)
    """Parts that a GPU has not passed."""

    def add(self, span: Span) -> None:
        """Add a step or a wait that has ended."""
        self._pending += span.device
        self._collect()
        for name, (wall_ns, cpu_ns) in span.times.items():
            total = self.parts.setdefault(name, PartTotal())
            total.steps += 1
            total.wall_ns += wall_ns
            total.cpu_ns += cpu_ns
        for sample in span.samples:
            self.samples[sample.part] += 1
            if sample.place is not None:
                self.places[sample.part, sample.place] += 1
            if sample.gil_wait_ns is not None:
                total = self.parts.setdefault(sample.part, PartTotal())
                total.gil_wait_ns = (total.gil_wait_ns or 0) + sample.gil_wait_ns

    def finish(self) -> None:
        """Wait for the last CUDA event."""
        if self._pending:
            self._pending[-1][2].synchronize()
            self._collect()

    def _collect(self) -> None:
        """Read the pairs of events that the GPU has passed."""
        while self._pending and self._pending[0][2].query():
            name, start, end = self._pending.popleft()
            total = self.parts.setdefault(name, PartTotal())
            total.device_ms = (total.device_ms or 0.0) + max(0.0, start.elapsed_time(end))

    def merge(self, other: "StepTotals") -> None:
        """Add the totals of further steps."""
        self.places.update(other.places)
        self.samples.update(other.samples)
        for name, part in other.parts.items():
            total = self.parts.setdefault(name, PartTotal())
            total.steps += part.steps
            total.wall_ns += part.wall_ns
            total.cpu_ns += part.cpu_ns
            if part.device_ms is not None:
                total.device_ms = (total.device_ms or 0.0) + part.device_ms
            if part.gil_wait_ns is not None:
                total.gil_wait_ns = (total.gil_wait_ns or 0) + part.gil_wait_ns
