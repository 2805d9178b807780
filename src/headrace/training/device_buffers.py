"""Memory of frames and batches that stay on the device that decoded them."""

from collections.abc import Iterable

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

    def hand_over(self, tensors: Iterable[torch.Tensor]) -> None:
        """Let the CUDA stream of this thread wait for the default one, and keep their memory."""
        if torch.device(self.device).type != "cuda":
            return
        ours = torch.cuda.current_stream(self.device)
        default = torch.cuda.default_stream(self.device)
        if ours == default:
            return
        ours.wait_stream(default)
        for tensor in tensors:
            # Else its memory would be used again before this stream is done with it.
            tensor.record_stream(ours)

    def close(self) -> None:
        """Do nothing: PyTorch keeps what is free."""
