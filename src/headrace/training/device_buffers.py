"""Memory of frames and batches that stay on the device that decoded them."""

import torch

from headrace.errors import BackendError


class DeviceBuffers:
    """Tensors on a device, as `FrameBuffers` and `BatchBuffers` are arrays. Thread-safe.

    PyTorch itself keeps the memory of tensors that nobody has any more, and gives it again. All
    that headrace does to them is asked of the CUDA stream of the thread that asks, which is the
    default one unless somebody chose another.
    """

    def __init__(self, device: str) -> None:
        """Touch no device yet."""
        self.device = device

    def take(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return uint8 of `shape`, of any content.

        Raises:
            BackendError: the device has no such memory left.
        """
        try:
            return torch.empty(shape, dtype=torch.uint8, device=self.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).partition("\n")[0][:200]
            raise BackendError(
                f"no memory for frames of {list(shape)} on {self.device}: {reason}; give a smaller "
                "memory_budget or batch, or leave keeps_on_device out"
            ) from error

    def close(self) -> None:
        """Do nothing: PyTorch keeps what is free."""
