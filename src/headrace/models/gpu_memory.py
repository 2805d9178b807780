"""What is done when memory runs out, and how much a batch is known to take."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from headrace.decode.resting_codecs import RESTING
from headrace.errors import BackendError, ConfigError, in_one_line


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether PyTorch, or Python, could not have the memory it asked for."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def release_memory() -> None:
    """Let go of what an error that was dealt with still held, so that less may be tried."""
    gc.collect()
    RESTING.release()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def fitting_memory(name: str) -> Iterator[None]:
    """Build the model `name` inside.

    Raises:
        BackendError: memory ran out, whatever else that was taken for.
    """
    try:
        yield
    except (RuntimeError, MemoryError, ConfigError) as error:
        causes = [each for each in (error, error.__cause__) if is_out_of_memory(each)]
        if not causes:
            raise
        words = in_one_line(str(causes[0])) or "no memory is left"
        raise BackendError(
            f"{name} does not fit into the memory of this machine: {words}; use a smaller model, "
            "or end other programs"
        ) from causes[0]


@dataclass(frozen=True, kw_only=True)
class KnownPeaks:
    """What batches took when they were measured, on this device, with this model."""

    peaks: Mapping[int, int]
    """Frames in a batch -> bytes at the peak; at least one."""
    origin: str
    """Where the figures come from, as sentences name it."""


def predicted_peak(peaks: Mapping[int, int], batch_size: int) -> int:
    """Return the peak of a batch size by a straight line through the two known ones next to it.

    A model holds its weights whatever the batch, and so many bytes for each frame. Of one known
    size the whole peak is taken to grow, which is too much rather than too little. Never less than
    any smaller size took.

    Args:
        peaks: Frames in a batch -> bytes at the peak; at least one.
        batch_size: Frames in a batch, at least 1.
    """
    known = sorted(peaks)
    at_most = max((peaks[size] for size in known if size <= batch_size), default=0)
    if batch_size in peaks:
        return at_most
    if len(known) == 1:
        [size] = known
        return max(at_most, -(-peaks[size] * batch_size // size))
    above = next((place for place, size in enumerate(known) if size > batch_size), len(known) - 1)
    low, high = known[max(0, above - 1)], known[max(1, above)]
    return max(
        at_most, round(peaks[high] - bytes_per_frame(peaks, low, high) * (high - batch_size))
    )


def bytes_per_frame(peaks: Mapping[int, int], low: int, high: int) -> float:
    """Return by how much the peak grows with each frame between two known batch sizes."""
    return (peaks[high] - peaks[low]) / (high - low)
