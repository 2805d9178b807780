"""Recorder of a training loop: each request, each batch and the end of each step."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.instrumentation.loader_info import BatchInfo, count_samples
from headrace.instrumentation.memory_growth import MemoryReadings
from headrace.instrumentation.step_parts import (
    PARTS,
    Span,
    StepParts,
    StepTotals,
    record_cuda_event,
)
from headrace.instrumentation.timed_worker import BatchCost
from headrace.runtime.clock import SYSTEM_CLOCK, Clock, ThreadMeter, ThreadTimes, processor_ns

if TYPE_CHECKING:
    from headrace.loaders.planned_loader import DecodingFacts

MAX_STEPS: Final = 100_000
"""Max steps to keep, about 40 MB; later steps are not recorded."""


@dataclass(slots=True)
class LoopStep:
    """One step: the wait for its batch, then the loop's work on it."""

    request_ns: int
    receive_ns: int
    is_first: bool
    """Whether it is the first step of its epoch, or disturbed by the recorder; not measured."""
    ready_batches: int | None
    """Batches in the loader's queue at the request; None: no queue."""
    samples: int | None
    """Samples in the batch; None: not known."""
    cost: BatchCost | None = None
    """Cost to load the batch; None: not known."""
    end_ns: int | None = None
    """Request of the next batch; None if the loop was left in this step."""
    cpu_ns: int = 0
    """CPU time of the loop's process, from `request_ns` to `end_ns`."""
    waiting: ThreadTimes | None = None
    """Times of the loop's thread, from `request_ns` to `receive_ns`; None: not known."""
    working: ThreadTimes | None = None
    """Times of the loop's thread, from `receive_ns` to `end_ns`; None: not known."""
    gpu_idle_ms: float | None = None
    """Idle time of the CUDA stream before the step; None without a GPU."""


class CudaGaps:
    """Idle time of the current CUDA stream between the work of two steps.

    One event is recorded after the work of a step, another before the work of the next step; the
    stream is idle between them. Only `finish` waits for the GPU.
    """

    def __init__(self, new_event: Callable[[], Any] | None = None) -> None:
        """Start without steps; `new_event` returns a recorded event, or None without a GPU."""
        self._new_event = new_event or record_cuda_event
        self._step_end: Any = None
        self._pending: deque[tuple[LoopStep, Any, Any]] = deque()

    def end_step(self) -> None:
        """Mark the end of a step; all of its work is queued on the stream."""
        self._step_end = self._new_event()

    def start_step(self, step: LoopStep) -> None:
        """Mark the start of a step, at the arrival of its batch; sets its `gpu_idle_ms` later."""
        if self._step_end is not None:
            self._pending.append((step, self._step_end, self._new_event()))
            self._step_end = None
            self._collect()

    def finish(self) -> None:
        """Wait for the last event."""
        if self._pending:
            self._pending[-1][2].synchronize()
            self._collect()

    def _collect(self) -> None:
        """Read the pairs of events that the GPU has reached."""
        while self._pending and self._pending[0][2].query():
            step, end, start = self._pending.popleft()
            step.gpu_idle_ms = max(0.0, float(end.elapsed_time(start)))


@dataclass
class LoopRecorder:
    """Recorder of a loop; about 0.1 ms per step. Not thread-safe."""

    clock: Clock = SYSTEM_CLOCK
    steps: list[LoopStep] = field(default_factory=list)
    start_seconds: list[float] = field(default_factory=list)
    """Time from the start of each epoch to its first batch."""
    gaps: CudaGaps = field(default_factory=CudaGaps)
    parts: StepParts = PARTS
    inside: StepTotals = field(default_factory=StepTotals)
    """Total times and samples of the steps, without the first step of each epoch."""
    memory: MemoryReadings = field(default_factory=MemoryReadings)
    batch: BatchInfo | None = None
    """Size of the first batch."""
    is_cut: bool = False
    """Whether there were more than `MAX_STEPS` steps."""
    decoding: "Callable[[], DecodingFacts | None]" = lambda: None
    """Returns the decoding of the loader so far; after its iteration, that at the end."""

    def __post_init__(self) -> None:
        self.epoch = 0
        """Number of the epoch, starting at 1."""
        self._epoch_start_ns: int | None = None
        self._pending: tuple[int, int, int | None] | None = None
        """(time, CPU time, ready batches) of the open request."""
        self._current: LoopStep | None = None
        self._meter = ThreadMeter()
        self._span: Span | None = None
        """Span of the open request or step."""
        self._is_disturbed = False
        """Whether the recorder took much of the time of the open request."""

    def start_epoch(self) -> None:
        """Record the start of an epoch: its iterator is about to be created or reset."""
        self._current = None
        self._end_span(is_measured=False)
        if self._epoch_start_ns is None:
            self._epoch_start_ns = self.clock.now_ns()
            self.epoch += 1

    def request(self, ready_batches: int | None = None) -> None:
        """Record a request for a batch, which ends the previous step."""
        now_ns, cpu_ns, times = self.clock.now_ns(), processor_ns(), self._meter.take()
        if self._current is not None:
            self._current.end_ns = now_ns
            self._current.cpu_ns += cpu_ns
            self._current.working = times
            self._end_span(now_ns, is_measured=not self._current.is_first)
            self._current = None
            self.gaps.end_step()
            self._is_disturbed = self.memory.end_step(len(self.steps), now_ns)
        self._span = self.parts.wait()
        self._pending = (now_ns, cpu_ns, ready_batches)

    def receive(self, batch: Any, cost: BatchCost | None = None) -> None:
        """Record the arrival of a batch, with its cost if known."""
        if self._pending is None:
            return
        now_ns = self.clock.now_ns()
        if self.batch is None:
            self.batch = BatchInfo.from_batch(batch)
        (request_ns, cpu_ns, ready_batches), self._pending = self._pending, None
        epoch_start_ns, self._epoch_start_ns = self._epoch_start_ns, None
        is_first = epoch_start_ns is not None or self._is_disturbed
        self._is_disturbed = False
        self._end_span(now_ns, is_measured=not is_first)
        if epoch_start_ns is not None:
            self.start_seconds.append((now_ns - epoch_start_ns) / 1e9)
        if len(self.steps) >= MAX_STEPS:
            self.is_cut = True
            return
        self._current = LoopStep(
            request_ns=request_ns,
            receive_ns=now_ns,
            is_first=is_first,
            ready_batches=ready_batches,
            samples=count_samples(batch) if cost is None else cost.samples,
            cost=cost,
            cpu_ns=-cpu_ns,
            waiting=self._meter.take(),
        )
        self.gaps.start_step(self._current)
        self.steps.append(self._current)
        self._span = self.parts.begin(self._parts_ns(now_ns))

    def end_epoch(self) -> None:
        """Record the end of an epoch: the loader has no more batches."""
        self._pending = self._epoch_start_ns = None
        self.leave(self.epoch)

    def leave(self, epoch: int) -> None:
        """Record that the loop requests no more batches of an epoch, for example after `break`.

        Does nothing if a later epoch has begun: an iterator may be destroyed long after its use.
        """
        if epoch != self.epoch:
            return
        self._current = None
        self._end_span(is_measured=False)
        self.memory.end(len(self.steps))

    def _parts_ns(self, now_ns: int | None) -> int | None:
        """Return the time for the parts, so that they add up; None: they have another clock."""
        return now_ns if self.parts.clock is self.clock else None

    def _end_span(self, now_ns: int | None = None, *, is_measured: bool) -> None:
        span, self._span = self._span, None
        if span is not None:
            self.parts.end(span, self._parts_ns(now_ns))
            if is_measured:
                self.inside.add(span)

    @property
    def seconds(self) -> float:
        """Time from the first request to the end of the last step."""
        if not self.steps:
            return 0.0
        last = self.steps[-1]
        return ((last.end_ns or last.receive_ns) - self.steps[0].request_ns) / 1e9

    def finished_steps(self) -> list[LoopStep]:
        """Return the steps with a known end; the step in which the loop was left has none."""
        self.gaps.finish()
        self.inside.finish()
        return [step for step in self.steps if step.end_ns is not None]


def merge_recorders(recorders: Sequence[LoopRecorder]) -> LoopRecorder:
    """Return the recorders of several iterations of one loop, merged to one."""
    merged = LoopRecorder()
    for recorder in recorders:
        recorder.gaps.finish()
        recorder.inside.finish()
        merged.inside.merge(recorder.inside)
        merged.memory.merge(recorder.memory, first_step=len(merged.steps))
        merged.steps += recorder.steps
        merged.start_seconds += recorder.start_seconds
        merged.batch = merged.batch or recorder.batch
        merged.is_cut |= recorder.is_cut
        if recorder.decoding() is not None:
            merged.decoding = recorder.decoding
    return merged
