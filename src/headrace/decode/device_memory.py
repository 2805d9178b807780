"""Memory on a device, for pixels that stay there."""

from typing import TYPE_CHECKING

from headrace.errors import BackendError, first_line
from headrace.runtime.forks import check_cuda_after_fork

if TYPE_CHECKING:
    import torch


def device_memory(shape: tuple[int, ...], device: str) -> "torch.Tensor":
    """Return a tensor of uint8 on a device, of `shape` and any content. Loads PyTorch.

    PyTorch itself keeps memory that nobody has any more, and gives it again.

    Raises:
        BackendError: the device has no such memory left, or is not here; or this process was
            forked from one that uses CUDA.
    """
    import torch

    if device != "cpu":
        check_cuda_after_fork(f"frames were to lie on {device}")
    try:
        return torch.empty(shape, dtype=torch.uint8, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = first_line(error)[:200]
        raise BackendError(
            f"frames of {list(shape)} were to lie on {device}, and PyTorch gives no memory there: "
            f"{reason}; if it is short, give a smaller memory_budget, batch or size; or leave "
            "keeps_on_device out"
        ) from error


def finish_work(device: str) -> None:
    """Wait until a GPU has done what this thread asked of its current CUDA stream."""
    import torch

    if device != "cpu":
        torch.cuda.current_stream(device).synchronize()
