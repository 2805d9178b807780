"""What is done when memory runs out."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from headrace.decode.codec_pool import IDLE_CODECS
from headrace.errors import BackendError, ConfigError, in_one_line


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether PyTorch, or Python, could not have the memory it asked for."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def release_memory() -> None:
    """Let go of what an error that was dealt with still held, so that less may be tried."""
    gc.collect()
    IDLE_CODECS.clear()
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
