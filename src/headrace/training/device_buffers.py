"""Memory of frames and batches that stay on the device that decoded them."""

import torch

from headrace.decode.device_memory import device_memory


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
        return device_memory(shape, self.device)

    def close(self) -> None:
        """Do nothing: PyTorch keeps what is free."""
