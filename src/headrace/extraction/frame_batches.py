"""Batches of frames assembled from decoded GOP ranges: jobs, memory, order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.decode.frame_outputs import Array
from headrace.decode.job_result import JobResult
from headrace.errors import ConfigError
from headrace.planning.gop_ranges import BatchPart, GopRange, split_batches
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
                f"of {height}x{width}, {batch_size * frame_bytes} bytes; raise it, or ask for a "
                "smaller batch_size or size"
            )
        if workers is None:
            # One GOP range is delivered while `workers` more run or wait: runtime/imap.py.
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
    """One GOP range in parts; each part belongs to one batch."""

    stretch: GopRange
    parts: list[BatchPart]
    shared: dict[int, Array]
    """Batch number → uint8 [N, H, W, 3], shared with other GOP ranges."""


def batches_over_stretches(
    stretches: Iterable[GopRange],
    num_frames: int,
    *,
    batch_size: int,
    most: int,
    first_batch: int = 0,
    new: Callable[[int], Array],
) -> Iterator[ReadingTask]:
    """Fill batches of exactly `batch_size` from consecutive GOP ranges of one video.

    Args:
        stretches: GOP ranges of one video, in order.
        num_frames: Frames in all ranges.
        batch_size: Frames in a batch.
        most: Max frames in a part.
        first_batch: Number of the first batch.
        new: Allocates memory for a number of frames.
    """
    begun: dict[int, Array] = {}
    planned = split_batches(
        stretches, num_frames, batch_size=batch_size, max_frames=most, first_batch=first_batch
    )
    for stretch, parts in planned:
        first, last = parts[0], parts[-1]
        shared = {first.batch: begun[first.batch]} if first.first else {}
        if not last.is_last:
            # Allocated once, here, because several threads fill it.
            begun = {last.batch: shared.get(last.batch, new(last.batch_frames))}
            shared |= begun
        yield ReadingTask(stretch=stretch, parts=parts, shared=shared)


@dataclass(frozen=True, kw_only=True, eq=False)
class FilledPart:
    """Part of a batch, with the successfully decoded frames."""

    video: int
    """Position of the video in the reader's list."""
    reading: JobResult
    """Outcome of its decode job."""
    batch: Array | None
    """uint8 [N, H, W, 3]: memory of the complete batch; None: no frame was decoded."""
    is_last: bool
    """Whether this is the last part of the batch."""
    seconds: float
    """Decode time, in its thread, including pending work of a device."""


def assembled(parts: Sequence[FilledPart], *, stop: int | None = None) -> FrameBatch | None:
    """Return the batch of its parts; None: no frame was decoded.

    Cost: copies only if a frame is missing.

    Args:
        parts: Parts in order; the last may be missing.
        stop: Frame index after the last delivered frame; None: all.
    """
    indices = np.array([index for part in parts for index in part.reading.wanted], np.int64)
    is_decoded = np.isin(indices, [index for part in parts for index in part.reading.decoded])
    if stop is not None:
        is_decoded &= indices < stop
    frames = parts[-1].batch
    if frames is None or not is_decoded.any():
        return None
    index = parts[0].reading.index
    concealed = [frame_index for part in parts for frame_index in part.reading.concealed]
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
