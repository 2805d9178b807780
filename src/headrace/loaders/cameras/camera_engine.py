"""CameraEngine: decode jobs of each camera stream, the batches they fill, and the threads."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import InitVar, dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.cache.spill_store import SpillStore
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.gpu.gpu_decoding import DeviceScheduler
from headrace.decode.open_decoder import open_any_decoder
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder, JobResult, run_job
from headrace.errors import MediaError
from headrace.loaders.augment import FrameGeometry
from headrace.loaders.cameras.camera_batch import SlotCell
from headrace.loaders.cameras.camera_options import CameraOptions, Ragged
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.camera_view import CameraViews
from headrace.loaders.frame_memory import BatchMemory
from headrace.runtime.imap import imap
from headrace.runtime.synchronization import CapacityLimiter, ResourcePool, Sequencer
from headrace.sampling.moments import MISSING
from headrace.sampling.slots import SlotPlan
from headrace.video.random_access import RandomAccess
from headrace.video.stream_index import StreamIndex

_SEEK_FRAMES: Final = 2
"""Cost of a seek, in decoded frames: see `planning/chunks.py`."""


def stream_jobs(
    index: StreamIndex, wanted: Sequence[int], following: int | None
) -> Iterator[DecodeJob]:
    """Yield decode jobs for frames of one camera, split where a seek is cheaper than decoding on.

    GOPs without a wanted frame are not decoded; after the last wanted frame of a GOP, at most two
    frames are. The codec keeps its state only if the next job continues there.

    Args:
        index: Index of the camera.
        wanted: Frames to deliver, strictly ascending.
        following: First frame of the next job; None: no job follows.
    """
    part: list[int] = []
    for frame, after in pairwise([*wanted, following]):
        assert frame is not None
        part.append(frame)
        is_cut = after is None or _is_seek_cheaper(index, frame, after)
        if is_cut or after == following:
            # In a file without seeking, a decoder without state restarts at the first packet.
            goes_on = after is not None and not (is_cut and index.is_seekable)
            yield DecodeJob(tuple(part), goes_on=goes_on, following=None if is_cut else after)
            part = []


def first_after(frames: NDArray[np.int64], frame: int) -> int | None:
    """Return the first of a camera's `frames`, int64 [moments], after `frame`; None: no more."""
    later = frames[frames > frame]
    return int(later[0]) if len(later) else None


def _is_seek_cheaper(index: StreamIndex, frame: int, after: int) -> bool:
    """Return whether a seek from `frame` to `after` costs less than decoding the frames between."""
    next_gop = index.gop_of(frame) + 1
    gop = index.gop_of(after)
    if gop != next_gop:
        return gop > next_gop
    if index.gop_random_access[gop] == RandomAccess.UNVERIFIED:
        return False  # The seek may have to start at an earlier keyframe.
    start = int(index.gop_start[gop])
    between = start - frame - 1
    if index.can_skip:
        between -= int(np.count_nonzero(index.is_disposable[frame + 1 : start]))
    return between > _SEEK_FRAMES


@dataclass(kw_only=True, eq=False)
class CameraStep:
    """Batch of one step, which decoders fill."""

    number: int
    """Position in the epoch."""
    cells: tuple[SlotCell, ...]
    pixels: Any
    """uint8 [N, C, H, W, 3], or N lists of C frames [H, W, 3], arrays or tensors. Undefined until
    decoded; black where no decoder writes."""
    sizes: NDArray[np.int64]
    """int64 [N, C, 2]."""
    is_lost: NDArray[np.bool_]
    """bool [N, C]: frames that could not be decoded."""
    errors: list[MediaError] = field(default_factory=list)
    """One for each lost frame."""

    def frame(self, position: int, camera: int) -> Any:
        """Return a view of one frame, uint8 [H, W, 3], by its position in the batch and camera."""
        height, width = self.sizes[position, camera].tolist()
        return self.pixels[position][camera][:height, :width]


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamJob:
    """Consecutive frames of one stream: one camera of one slot."""

    stream: tuple[int, int]
    """(position of the slot in this rank's batch, camera)."""
    number: int
    """Number of earlier jobs of the stream."""
    index: StreamIndex
    geometry: FrameGeometry
    steps: dict[int, list[CameraStep]]
    """Frame → its batches; frames ascending."""
    goes_on: bool
    """Whether the next job of the stream belongs to the same sequence."""
    next_frame: int | None
    """This camera's next frame in the sequence; None: no more."""
    keeps_last: bool
    """Whether the next job starts with the last frame of this one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CameraSchedule:
    """Jobs and batches of one rank in one epoch."""

    cameras: CameraSet
    sequences: NDArray[np.int64]
    """int64 [sequences, 3]: (clip, first moment, end)."""
    plan: SlotPlan
    slots: range
    """Slots of this rank."""
    views: CameraViews
    seed: int
    """Seed of augmentation."""
    ragged: Ragged | None
    """Format of batches with frames of different sizes; None: sizes are equal."""
    job_frames: int
    """Max frames of a job."""
    memory: BatchMemory

    def iterate(
        self, first_step: int, limiter: CapacityLimiter
    ) -> Iterator[StreamJob | CameraStep]:
        """Yield, for every step, the jobs that it still needs, then its batch.

        A job is yielded when its first frame is due, and fills later batches too. Every batch takes
        one permit of `limiter`.
        """
        covered = [first_step] * len(self.slots)
        numbers = [0] * len(self.slots)
        started: dict[int, CameraStep] = {}
        for number in range(first_step, self.plan.num_steps):
            for position in range(len(self.slots)):
                if covered[position] > number:
                    continue
                end = covered[position] = self._job_end(self.slots[position], number)
                for later in range(number, end):
                    if later not in started:
                        limiter.acquire(1)
                        started[later] = self._start_step(later)
                if started[number].cells[position].clip >= 0:
                    steps = [started[later] for later in range(number, end)]
                    yield from self._stream_jobs(position, steps, numbers[position])
                    numbers[position] += 1
            yield started.pop(number)

    def _job_end(self, slot: int, step: int) -> int:
        """Return the end of the steps [step, end) of the slot's next job."""
        sequence, offset = self.plan.at(slot, step)
        if sequence < 0:
            return step + 1
        length = int(self.sequences[sequence, 2] - self.sequences[sequence, 1])
        return min(step + self.job_frames, step + length - offset, self.plan.num_steps)

    def _stream_jobs(
        self, position: int, steps: Sequence[CameraStep], number: int
    ) -> Iterator[StreamJob]:
        """Yield one job per camera of a slot, for consecutive steps of one sequence."""
        cells = [step.cells[position] for step in steps]
        first, next_row = cells[0], cells[-1].row + 1
        next_step = steps[-1].number + 1
        # An offset of 0 starts another sequence; a negative one marks an empty slot.
        goes_on = (
            next_step < self.plan.num_steps and self.plan.at(self.slots[position], next_step)[1] > 0
        )
        end = int(self.cameras.clip_start[first.clip + 1]) if goes_on else next_row
        later = self.cameras.frame[next_row:end]
        for camera, index in enumerate(self.cameras.clips[first.clip].indexes):
            steps_of: dict[int, list[CameraStep]] = {}
            for cell, step in zip(cells, steps, strict=True):
                frame = int(self.cameras.frame[cell.row, camera])
                if frame != MISSING:
                    steps_of.setdefault(frame, []).append(step)
            yield StreamJob(
                stream=(position, camera),
                number=number,
                index=index,
                geometry=self.views.slot_geometry(first, camera),
                steps=steps_of,
                goes_on=goes_on,
                next_frame=first_after(later[:, camera], max(steps_of, default=MISSING)),
                keeps_last=goes_on and int(later[0, camera]) in steps_of,
            )

    def _start_step(self, number: int) -> CameraStep:
        cells = tuple(
            SlotCell.at(self.cameras, self.plan, self.sequences, slot, number, self.seed)
            for slot in self.slots
        )
        sizes = np.array([self._sizes(cell) for cell in cells], np.int64)
        if self.ragged == "list":
            black = self.memory.black
            pixels = [[black((height, width)) for height, width in row] for row in sizes.tolist()]
        else:
            height, width = self.views.max_size
            pixels = self.memory.take((*sizes.shape[:2], height, width, 3))
            # Decoders do not write every pixel of these. Frames of an empty slot have size 0.
            is_missing = self.cameras.frame[[cell.row for cell in cells]] == MISSING
            is_padded = (sizes != (height, width)).any(-1)
            for position, camera in np.argwhere(is_missing | is_padded).tolist():
                pixels[position, camera] = 0
        return CameraStep(
            number=number,
            cells=cells,
            pixels=pixels,
            sizes=sizes,
            is_lost=np.zeros(sizes.shape[:2], bool),
        )

    def _sizes(self, cell: SlotCell) -> list[tuple[int, int]]:
        count = len(self.cameras.cameras)
        if cell.clip < 0:
            return [(0, 0)] * count
        return [self.views.size(cell.clip, camera) for camera in range(count)]


_MAX_ITEMS = 1024
"""Max jobs and batches in flight; the number of batches, not this, bounds memory."""


@dataclass(kw_only=True, eq=False)
class CameraEngine:
    """One run through the steps of an epoch; `run` may be called once."""

    schedule: CameraSchedule
    decoding: DecoderConfig
    scheduler: DeviceScheduler | None
    """Chooses the device of each job, with `DecoderConfig(device="auto")`."""
    options: InitVar[CameraOptions]
    """Options for lost frames, for the max duration of a job, and the clock."""
    max_batches: int
    """Max batches in flight, besides those of the caller."""
    max_idle: int
    """Max files that stay open between jobs."""
    num_threads: int
    """Decoding threads."""
    spill: SpillStore | None = None
    """Store of decoded frames on a disk."""
    _order: Sequencer = field(default_factory=Sequencer)
    _last_frames: dict[tuple[int, int], tuple[int, Any]] = field(default_factory=dict)
    _counters: list[DecodeCounters] = field(default_factory=list)

    def __post_init__(self, options: CameraOptions) -> None:
        self.room = CapacityLimiter(self.max_batches, clock=options.clock)
        """Permits of batches that are being decoded, or wait for the caller."""
        self._idle: ResourcePool[tuple[int, int], Decoder[Any]] = ResourcePool(self.max_idle)
        # Not the options: their transforms may reference the loader, and threads keep the engine
        # alive.
        self._clock, self._stall_seconds = options.clock, options.stall_seconds
        self._skips_bad = options.skips_bad

    @property
    def counters(self) -> DecodeCounters:
        """Decode counters, over all threads."""
        return sum(tuple(self._counters), DecodeCounters())

    def run(self, first_step: int) -> Generator[CameraStep, None, None]:
        """Yield every batch from `first_step` on, in order, with lost frames marked.

        Raises:
            MediaError: a frame cannot be decoded, and `on_error` is "raise".
            StageError: a thread hangs.
        """
        steps = imap(
            self._make_worker,
            self.schedule.iterate(first_step, self.room),
            workers=self.num_threads,
            capacity=1,
            lookahead=_MAX_ITEMS,
            name="cameras",
            stall_seconds=self._stall_seconds,
            clock=self._clock,
            describe=_describe,
            on_cancel=self._cancel,
        )
        memory = self.schedule.memory
        # Closed from right to left: threads are joined before files are closed.
        with closing(memory), closing(self._idle), closing(steps):
            for step in steps:
                if step.errors and not self._skips_bad:
                    raise step.errors[0]
                memory.hand_over(step.pixels)
                yield step
                self.room.release(1)

    def _cancel(self) -> None:
        self.room.cancel()
        self._order.cancel()

    def _make_worker(
        self,
    ) -> AbstractContextManager[Callable[[StreamJob | CameraStep], list[CameraStep]]]:
        counters = DecodeCounters()
        self._counters.append(counters)

        def work(item: StreamJob | CameraStep) -> list[CameraStep]:
            if isinstance(item, CameraStep):
                return [item]
            with self._order.turn(item.stream, item.number):
                counters.count(self._decode(item))
            return []

        return nullcontext(work)

    def _decode(self, job: StreamJob) -> DecodeCounters:
        """Write the frames of a job into its batches, and mark lost frames."""
        steps_of = dict(job.steps)
        last = self._last_frames.pop(job.stream, None)
        if last is not None:
            for step in steps_of.pop(last[0], []):
                step.frame(*job.stream)[...] = last[1]
        decoder = self._idle.acquire(job.stream) or open_any_decoder(
            job.index,
            job.geometry.shape,
            self.decoding,
            scheduler=self.scheduler,
            spill=self.spill,
        )
        before, stays_open = replace(decoder.counters), False
        try:
            is_complete = True
            for decode_job in stream_jobs(job.index, [*steps_of], job.next_frame):
                out = [steps_of[frame][0].frame(*job.stream) for frame in decode_job.wanted]
                result = run_job(decoder, decode_job, out)
                is_complete &= result.error is None
                _deliver(result, job, out)
                last = decode_job.wanted[-1], out[-1]
            if is_complete and job.keeps_last and last is not None:
                frame, pixels = last
                copy = pixels.clone() if isinstance(pixels, torch.Tensor) else pixels.copy()
                self._last_frames[job.stream] = frame, copy
            stays_open = is_complete and job.goes_on
        finally:
            if stays_open:
                self._idle.release(job.stream, decoder)
            else:
                decoder.close()
        return decoder.counters - before


def _describe(item: StreamJob | CameraStep) -> str:
    if isinstance(item, CameraStep):
        return "a batch"
    first = next(iter(item.steps), 0)
    return f"{len(item.steps)} frames of {item.index.source} (from frame {first})"


def _deliver(result: JobResult, job: StreamJob, frames: Sequence[Any]) -> None:
    """Finish decoded frames and copy them to all their batches; make lost frames black."""
    for number, pixels in zip(result.wanted, frames, strict=True):
        steps = job.steps[number]
        if number in result.decoded:
            job.geometry.finish(pixels)
            for step in steps[1:]:
                step.frame(*job.stream)[...] = pixels
        elif result.error is not None:
            for step in steps:
                step.is_lost[job.stream] = True
                step.frame(*job.stream)[...] = 0
                step.errors.append(result.error)
