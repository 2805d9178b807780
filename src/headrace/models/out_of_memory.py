"""Whether an error says that memory ran out, on the CPU or on a GPU; what may then be freed."""

import gc

import torch


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether PyTorch, or Python, could not have the memory it asked for."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def release_memory() -> None:
    """Let go of what an error that was dealt with still held, so that less may be tried."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
