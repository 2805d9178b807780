"""Memory on a device, for pixels that stay there."""

from typing import TYPE_CHECKING

from headrace.errors import BackendError

if TYPE_CHECKING:
    import torch


def device_memory(shape: tuple[int, ...], device: str) -> "torch.Tensor":
    """Return a tensor of uint8 on a device, of `shape` and any content. Loads PyTorch.

    PyTorch itself keeps memory that nobody has any more, and gives it again.

    Raises:
        BackendError: the device has no such memory left.
    """
    import torch

    try:
        return torch.empty(shape, dtype=torch.uint8, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise BackendError(
            f"no memory for frames of {list(shape)} on {device}: {reason}; give a smaller "
            "memory_budget or batch, or leave keeps_on_device out"
        ) from error
