"""How the memory budget of a reader is shared out over its threads."""

from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.runtime.affinity import available_cores

_JOB_BYTES = 8 << 20
_JOB_FRAMES = 32
_JOBS_WAITING = 4
"""At least, before jobs become larger than that for the sake of whole batches."""


@dataclass(frozen=True, kw_only=True)
class ReadingRoom:
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
    ) -> "ReadingRoom":
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
            # One stretch is delivered while `workers` more run or wait: runtime/ordered.py.
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
