"""Recorder of a training loop: each request, each batch and the end of each step; their trace."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

import torch

from headrace.instrumentation.memory_growth import MemoryReadings
from headrace.instrumentation.step_parts import (
    PARTS,
    EventPairs,
    Span,
    StepParts,
    StepTotals,
    record_cuda_event,
)
from headrace.instrumentation.timed_worker import IN_LOOP, BatchCost
from headrace.profiling.trace import Event, ItemTrace, trace_events
from headrace.runtime.clock import SYSTEM_CLOCK, Clock, ThreadMeter, ThreadTimes, processor_ns
from headrace.runtime.tracing import TimedRange

if TYPE_CHECKING:
    from headrace.loaders.planned_loader import DecodingFacts

_MAX_DEPTH: Final = 4
"""Max levels of a nested batch to search for tensors."""
_MAX_WIDTH: Final = 64
"""Max entries of a list to search for tensors."""
FETCH, COLLATE, STEP = "fetch", "collate", "step"
"""Stages: reading samples from the dataset; collating them to a batch; the rest of the step."""
WAIT: Final = "wait"
"""Range of the loop's wait for a batch."""
MAX_TRACE_STEPS: Final = 10_000
"""Max steps in a trace, the first ones of the loop: about 2 MB."""
MAX_STEPS: Final = 100_000
"""Max steps to keep, about 40 MB; later steps are not recorded."""


@dataclass(frozen=True, kw_only=True)
class BatchInfo:
    """Size of a batch."""

    num_bytes: int | None
    """Bytes of its tensors; None: no tensors found."""
    has_float32: bool
    """Whether more than half of the bytes are float32."""

    @classmethod
    def from_batch(cls, batch: Any) -> Self:
        """Measure a batch; keeps no reference to it."""
        sizes = [
            (tensor.dtype, tensor.numel() * tensor.element_size())
            for tensor in _find_tensors(batch, _MAX_DEPTH)
        ]
        total = sum(size for _, size in sizes)
        float32 = sum(size for dtype, size in sizes if dtype == torch.float32)
        return cls(num_bytes=total if sizes else None, has_float32=2 * float32 > total)


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
        self._pairs = EventPairs()

    def end_step(self) -> None:
        """Mark the end of a step; all of its work is queued on the stream."""
        self._step_end = self._new_event()

    def start_step(self, step: LoopStep) -> None:
        """Mark the start of a step, at the arrival of its batch; sets its `gpu_idle_ms` later."""
        if self._step_end is not None:
            use = partial(setattr, step, "gpu_idle_ms")
            self._pairs.add(self._step_end, self._new_event(), use)
            self._step_end = None
            self._pairs.collect()

    def finish(self) -> None:
        """Wait for the last event."""
        self._pairs.finish()


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
            samples=_count_samples(batch) if cost is None else cost.samples,
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


def _count_samples(batch: Any) -> int | None:
    """Return the length of the first tensor of a batch; None without tensors."""
    first = next(_find_tensors(batch, _MAX_DEPTH), None)
    return len(first) if first is not None and first.ndim else None


def _find_tensors(batch: Any, depth: int) -> Iterator[torch.Tensor]:
    """Yield the tensors of a nested batch, down to `depth` levels, from the start of each list."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif depth:
        for value in islice(_list_values(batch), _MAX_WIDTH):
            yield from _find_tensors(value, depth - 1)


def _list_values(batch: Any) -> Iterable[Any]:
    if isinstance(batch, Mapping):
        return batch.values()
    if isinstance(batch, list | tuple):
        return batch
    if is_dataclass(batch):
        return (getattr(batch, field.name) for field in fields(batch))
    return getattr(batch, "__dict__", {}).values()


def trace_loop(steps: Sequence[LoopStep], *, process_id: int, origin_ns: int) -> list[Event]:
    """Return the trace of a loop and its workers, with a range per stage and step.

    An arrow leads from each batch to its step.

    Args:
        steps: Finished steps.
        process_id: Process of the loop.
        origin_ns: Time 0 of the trace.
    """
    steps = steps[:MAX_TRACE_STEPS]
    processes = {
        cost.process_id: f"DataLoader worker {cost.worker}"
        for cost in costs_of(steps)
        if cost.process_id is not None
    }
    return trace_events(
        [
            timed_range
            for index, step in enumerate(steps)
            for timed_range in _build_ranges(index, step, process_id)
        ],
        [ItemTrace(number=index, stages=(FETCH, COLLATE, STEP)) for index in range(len(steps))],
        origin_ns=origin_ns,
        processes=processes | {process_id: "training loop"},
    )


def _build_ranges(index: int, step: LoopStep, loop_process: int) -> Iterator[TimedRange]:
    """Yield the ranges of one step."""
    cost = step.cost
    ranges = [
        (loop_process, "loop", WAIT, step.request_ns, step.receive_ns),
        (loop_process, "loop", STEP, step.receive_ns, step.end_ns or step.receive_ns),
    ]
    if cost is not None and cost.process_id is not None:
        row = "loop" if cost.worker == IN_LOOP else f"worker {cost.worker}"
        fetched_ns = cost.ready_ns - cost.collate_ns
        ranges = [
            (cost.process_id, row, FETCH, fetched_ns - cost.fetch_ns, fetched_ns),
            (cost.process_id, row, COLLATE, fetched_ns, cost.ready_ns),
            *ranges,
        ]
    for process_id, row, stage, start_ns, end_ns in ranges:
        yield TimedRange(
            process_id=process_id,
            thread_id=process_id,
            thread=row,
            stage=stage,
            number=index,
            start_ns=start_ns,
            end_ns=end_ns,
        )


def costs_of(steps: Sequence[LoopStep]) -> list[BatchCost]:
    """Return the known costs of the batches of these steps."""
    return [step.cost for step in steps if step.cost is not None]
