"""Whether an error says that memory ran out, on the CPU or on a GPU."""

import torch


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether PyTorch, or Python, could not have the memory it asked for."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
