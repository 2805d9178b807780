"""Decoded stretches put together to batches of frames: their jobs, their memory, their order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.decode.frame_outputs import Array, StackedOutput
from headrace.decode.job_result import JobResult, run_job
from headrace.decode.protocol import DecodeJob, Decoder
from headrace.errors import ConfigError
from headrace.planning.gop_ranges import BatchPart, GopRange, split_batches
from headrace.runtime.affinity import available_cores
from headrace.runtime.clock import Clock
from headrace.video.frames import FrameBatch

_JOB_BYTES = 8 << 20
_JOB_FRAMES = 32
_JOBS_WAITING = 4
"""At least, before jobs become larger than that for the sake of whole batches."""


@dataclass(frozen=True, kw_only=True)
class ReadBudget:
    """What may be decoded before its turn."""

    job_frames: int
    """Frames of a decode job, at most."""
    jobs: int
    """Jobs of one stretch that may wait for their turn."""
    workers: int
    """Decoding threads."""

    @classmethod
    def of(
        cls, size: tuple[int, int], *, batch_size: int | None, workers: int | None, budget: int
    ) -> "ReadBudget":
        """Share out a budget.

        Args:
            size: (height, width) of a frame.
            batch_size: Frames in a batch; None: a job is one.
            workers: Decoding threads; None: one for each core, as far as the budget holds.
            budget: Bytes that frames may hold.

        Raises:
            ConfigError: the budget does not hold a batch, or a job for each worker.
        """
        height, width = size
        frame_bytes = height * width * 3
        job = max(1, min(_JOB_FRAMES, _JOB_BYTES // frame_bytes))
        if batch_size is not None and batch_size * frame_bytes > budget:
            raise ConfigError(
                f"a memory budget of {budget} bytes does not hold a batch of {batch_size} frames "
                f"of {height}x{width}, {batch_size * frame_bytes} bytes; raise it, or ask for a "
                "smaller batch_size or size"
            )
        if workers is None:
            # One stretch is delivered while `workers` more run or wait: runtime/imap.py.
            most = budget // (job * frame_bytes) - 1
            workers = max(1, min(len(available_cores()), most))
        share = budget // (frame_bytes * (workers + 1))
        if batch_size is not None:
            job = max(1, min(batch_size, share, max(job, share // _JOBS_WAITING)))
        if share < job:
            raise ConfigError(
                f"a memory budget of {budget} bytes does not hold {job} frames "
                f"of {height}x{width} for each of {workers} workers; "
                "raise it, or ask for a smaller size or fewer workers"
            )
        return cls(job_frames=job, jobs=share // job, workers=workers)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadingTask:
    """A stretch in parts, each of one batch."""

    stretch: GopRange
    parts: list[BatchPart]
    shared: dict[int, Array]
    """Number of a batch → uint8 [N, H, W, 3], where frames of other stretches go too."""


def batches_of_one_stretch(
    stretches: Iterable[GopRange], *, batch_size: int
) -> Iterator[ReadingTask]:
    """Cut every stretch into batches of at most `batch_size` that it has for itself."""
    for stretch in stretches:
        num_frames = len(stretch.wanted)
        for _, parts in split_batches(
            [stretch], num_frames, batch_size=batch_size, max_frames=batch_size
        ):
            yield ReadingTask(stretch=stretch, parts=parts, shared={})


def batches_over_stretches(
    stretches: Iterable[GopRange],
    num_frames: int,
    *,
    batch_size: int,
    most: int,
    first_batch: int = 0,
    new: Callable[[int], Array],
) -> Iterator[ReadingTask]:
    """Fill batches of exactly `batch_size` by the stretches of one video, in order.

    Args:
        stretches: Of one video.
        num_frames: Frames in all of them.
        batch_size: Frames in a batch.
        most: Frames in a part.
        first_batch: Number of the first batch.
        new: Takes memory for so many frames.
    """
    begun: dict[int, Array] = {}
    planned = split_batches(
        stretches, num_frames, batch_size=batch_size, max_frames=most, first_batch=first_batch
    )
    for stretch, parts in planned:
        first, last = parts[0], parts[-1]
        shared = {first.batch: begun[first.batch]} if first.first else {}
        if not last.is_last:
            # Taken here, and so once, although several threads fill it.
            begun = {last.batch: shared.get(last.batch, new(last.batch_frames))}
            shared |= begun
        yield ReadingTask(stretch=stretch, parts=parts, shared=shared)


def _nothing() -> None:
    """Do nothing: what is asked of the CPU is done."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FilledPart:
    """A part of a batch with its frames where they belong, as far as they came."""

    video: int
    """Place of the video in the list that was asked for."""
    reading: JobResult
    """What became of its frames."""
    batch: Array | None
    """uint8 [N, H, W, 3]: memory of the whole batch; None where no frame came."""
    is_last: bool
    """Whether the batch is full with it."""
    seconds: float
    """How long decoding it took, in its thread."""


def fill(
    decoder: Decoder[Array],
    video: int,
    part: BatchPart,
    batch: Array,
    *,
    conceals: bool,
    clock: Clock,
    finish: Callable[[], None] = _nothing,
) -> FilledPart:
    """Decode a part into its places in `batch`, uint8 [N, H, W, 3].

    `finish` waits until a device has done what it was asked for, so that it is timed.
    """
    began_ns = clock.now_ns()
    job = DecodeJob(part.wanted, conceals=conceals)
    places: Array = batch[part.first : part.stop]
    reading = run_job(decoder, job, places)
    finish()
    return FilledPart(
        video=video,
        reading=reading,
        batch=batch,
        is_last=part.is_last,
        seconds=(clock.now_ns() - began_ns) / 1e9,
    )


def fill_by_size(
    decoder: Decoder[Array],
    video: int,
    wanted: tuple[int, ...],
    *,
    take: Callable[[tuple[int, ...]], Array],
    conceals: bool,
    clock: Clock,
    finish: Callable[[], None] = _nothing,
) -> list[FilledPart]:
    """Decode frames into a batch of their own; into several where they change their size."""
    parts: list[FilledPart] = []
    while wanted:
        began_ns = clock.now_ns()
        stack: StackedOutput[Array] = StackedOutput(len(wanted), take)
        reading = run_job(decoder, DecodeJob(wanted, conceals=conceals), stack)
        finish()
        # From the first of another size on, all belong in a later batch.
        stop = min((k for k in stack.misfits if k), default=len(wanted))
        frames: Array | None = stack.frames[:stop] if reading.decoded else None
        reading = replace(reading, wanted=wanted[:stop])
        parts.append(
            FilledPart(
                video=video,
                reading=reading,
                batch=frames,
                is_last=True,
                seconds=(clock.now_ns() - began_ns) / 1e9,
            )
        )
        wanted = wanted[stop:]
    return parts


def assembled(
    parts: Sequence[FilledPart],
    *,
    stop: int | None = None,
) -> FrameBatch | None:
    """Return the batch of all its parts, of what came; None where nothing did.

    Cost: nothing is copied unless a frame did not come.

    Args:
        parts: In order; the last may be missing.
        stop: Index of a frame of the video from which on none is wanted.
    """
    wanted = np.array([index for part in parts for index in part.reading.wanted], np.int64)
    came = np.isin(wanted, [index for part in parts for index in part.reading.decoded])
    if stop is not None:
        came &= wanted < stop
    frames = parts[-1].batch
    if frames is None or not came.any():
        return None
    index = parts[0].reading.index
    concealed = [number for part in parts for number in part.reading.concealed]
    if len(wanted) < len(frames) or not came.all():
        frames, wanted = frames[: len(wanted)][np.flatnonzero(came).tolist()], wanted[came]
    return FrameBatch(
        frames=frames,
        video=parts[0].video,
        index=wanted,
        pts=index.pts[wanted],
        time_base=index.info.time_base,
        is_concealed=np.isin(wanted, concealed),
        decode_seconds=sum(part.seconds for part in parts),
    )
