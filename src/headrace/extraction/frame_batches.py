"""Batches of frames assembled from decoded GOP ranges: jobs, memory, order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.decode.frame_outputs import Array
from headrace.decode.protocol import JobResult
from headrace.errors import ConfigError
from headrace.planning.chunks import BatchPart, GopRange, split_batches
from headrace.runtime.processor_affinity import available_cores
from headrace.video.frames import FrameBatch

_JOB_BYTES = 8 << 20
_JOB_FRAMES = 32
_JOBS_WAITING = 4
"""Min waiting jobs per GOP range before jobs grow to whole batches."""


@dataclass(frozen=True, kw_only=True)
class ReadBudget:
    """Limits on decoding ahead of delivery."""

    job_frames: int
    """Max frames of a decode job."""
    jobs: int
    """Max jobs of one GOP range that wait for delivery."""
    workers: int
    """Decoding threads."""

    @classmethod
    def of(
        cls, size: tuple[int, int], *, batch_size: int | None, workers: int | None, budget: int
    ) -> "ReadBudget":
        """Return the limits for a memory budget.

        Args:
            size: (height, width) of a frame.
            batch_size: Frames in a batch; None: each job is a batch.
            workers: Decoding threads; None: one per core, limited by the budget.
            budget: Max bytes of decoded frames.

        Raises:
            ConfigError: the budget is too small for a batch, or for one job per worker.
        """
        height, width = size
        frame_bytes = height * width * 3
        job = max(1, min(_JOB_FRAMES, _JOB_BYTES // frame_bytes))
        if batch_size is not None and batch_size * frame_bytes > budget:
            raise ConfigError(
                f"a memory budget of {budget} bytes does not hold a batch of {batch_size} frames "
                f"of {height}x{width}, {batch_size * frame_bytes} bytes; raise the budget, or "
                "reduce batch_size or size"
            )
        if workers is None:
            # One GOP range is delivered while `workers` more run or wait: runtime/imap.py.
            max_workers = budget // (job * frame_bytes) - 1
            workers = max(1, min(len(available_cores()), max_workers))
        share = budget // (frame_bytes * (workers + 1))
        if batch_size is not None:
            job = max(1, min(batch_size, share, max(job, share // _JOBS_WAITING)))
        if share < job:
            raise ConfigError(
                f"a memory budget of {budget} bytes does not hold {job} frames "
                f"of {height}x{width} for each of {workers} workers; "
                "raise the budget, or reduce size or workers"
            )
        return cls(job_frames=job, jobs=share // job, workers=workers)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadingTask:
    """One GOP range in parts; each part belongs to one batch."""

    gop_range: GopRange
    parts: list[BatchPart]
    shared: dict[int, Array]
    """Batch number → uint8 [N, H, W, 3], shared with other GOP ranges."""


def split_ranges_into_batches(
    ranges: Iterable[GopRange],
    num_frames: int,
    *,
    batch_size: int,
    max_part_frames: int,
    first_batch: int = 0,
    allocate: Callable[[int], Array],
) -> Iterator[ReadingTask]:
    """Yield a task for each GOP range of one video, which fill batches of exactly `batch_size`.

    Args:
        ranges: GOP ranges of one video, in order.
        num_frames: Frames in all ranges.
        batch_size: Frames in a batch.
        max_part_frames: Max frames in a part.
        first_batch: Number of the first batch.
        allocate: Allocates memory for a number of frames.
    """
    unfinished: dict[int, Array] = {}
    split = split_batches(
        ranges,
        num_frames,
        batch_size=batch_size,
        max_frames=max_part_frames,
        first_batch=first_batch,
    )
    for gop_range, parts in split:
        first, last = parts[0], parts[-1]
        shared = {first.batch: unfinished[first.batch]} if first.first else {}
        if not last.is_last:
            # Allocated once, here, because several threads fill it.
            unfinished = {last.batch: shared.get(last.batch, allocate(last.batch_frames))}
            shared |= unfinished
        yield ReadingTask(gop_range=gop_range, parts=parts, shared=shared)


@dataclass(frozen=True, kw_only=True, eq=False)
class FilledPart:
    """Part of a batch, with the successfully decoded frames."""

    video: int
    """Position of the video in the reader's list."""
    result: JobResult
    """Outcome of its decode job."""
    batch: Array | None
    """uint8 [N, H, W, 3]: memory of the complete batch; None: no frame was decoded."""
    is_last: bool
    """Whether this is the last part of the batch."""
    seconds: float
    """Decode time, in its thread, including pending work of a device."""


def assemble_batch(parts: Sequence[FilledPart], *, stop: int | None = None) -> FrameBatch | None:
    """Return the batch of its parts; None: no frame was decoded.

    Cost: copies only if a frame is missing.

    Args:
        parts: Parts in order; the last may be missing.
        stop: Frame index after the last delivered frame; None: all.
    """
    indices = np.array([index for part in parts for index in part.result.wanted], np.int64)
    is_decoded = np.isin(indices, [index for part in parts for index in part.result.decoded])
    if stop is not None:
        is_decoded &= indices < stop
    frames = parts[-1].batch
    if frames is None or not is_decoded.any():
        return None
    index = parts[0].result.index
    concealed = [frame_index for part in parts for frame_index in part.result.concealed]
    if len(indices) < len(frames) or not is_decoded.all():
        frames, indices = (
            frames[: len(indices)][np.flatnonzero(is_decoded).tolist()],
            indices[is_decoded],
        )
    return FrameBatch(
        frames=frames,
        video=parts[0].video,
        index=indices,
        pts=index.pts[indices],
        time_base=index.info.time_base,
        is_concealed=np.isin(indices, concealed),
        decode_seconds=sum(part.seconds for part in parts),
    )
