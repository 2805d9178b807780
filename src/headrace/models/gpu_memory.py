"""Out-of-memory errors: their detection, and release of memory."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from headrace.decode.gpu.gpu_decoding import IDLE_CODECS
from headrace.errors import BackendError, ConfigError, in_one_line


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error is a failed memory allocation of PyTorch or Python."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def release_memory() -> None:
    """Free the memory of a failed attempt, before a smaller one."""
    gc.collect()
    IDLE_CODECS.clear()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def fitting_memory(name: str) -> Iterator[None]:
    """Turn out-of-memory errors of the block into a BackendError that names the model.

    Raises:
        BackendError: memory ran out.
    """
    try:
        yield
    except (RuntimeError, MemoryError, ConfigError) as error:
        causes = [cause for cause in (error, error.__cause__) if is_out_of_memory(cause)]
        if not causes:
            raise
        reason = in_one_line(str(causes[0])) or "no memory is left"
        raise BackendError(
            f"{name} does not fit into the memory of this machine: {reason}; use a smaller model, "
            "or close other programs"
        ) from causes[0]
