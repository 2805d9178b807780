"""Transfer of tensors to a device: pinned copies to a GPU, no copies on the CPU."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.models.compute import Device

Copy = Callable[[torch.Tensor, Device], torch.Tensor]
"""Returns the tensor on the device: the same tensor if it is already there."""


def copy_to(tensor: torch.Tensor, device: Device) -> torch.Tensor:
    """Return the tensor on the device. Copies from pageable memory; blocks."""
    return tensor.to(device)


def copy_for(device: Device) -> Copy:
    """Return the fastest copy function for a thread that copies batch after batch."""
    return copy_to if device == "cpu" else PinnedCopy()


def transfer(
    data: torch.Tensor | NDArray[np.uint8], device: Device, *, copy: Copy = copy_to
) -> torch.Tensor:
    """Return a tensor on a device, without a copy if it is already there.

    Call it either on frames before preprocessing (uint8), which then runs on the device, or on
    batches after preprocessing (float32, four times the bytes).

    Args:
        data: Tensor, or array on the CPU.
        device: Target device.
        copy: Copy function.
    """
    tensor = torch.from_numpy(data) if isinstance(data, np.ndarray) else data
    return copy(tensor, device)


class CopyStream:
    """CUDA stream for copies concurrent with other streams. For one thread.

    Each transfer first copies into page-locked memory, which PyTorch reuses.
    """

    def __init__(self, device: torch.device | str = "cuda") -> None:
        """Prepare the stream; it is created with the first copy."""
        self._device = torch.device(device)
        self._stream: torch.cuda.Stream | None = None

    def mark(self) -> torch.cuda.Event:
        """Return an event after all pending work of the caller's current stream."""
        return _event(torch.cuda.current_stream(self._device))

    def begin(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], torch.cuda.Event]:
        """Start copies of CPU tensors; return the GPU tensors and the event of their completion.

        Their memory belongs to this stream; `hand_over` or `record_stream` marks its use on
        another stream.
        """
        stream = self._stream = self._stream or torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        pinned = [tensor.pin_memory() for tensor in tensors]
        with torch.cuda.stream(stream):
            moved = [tensor.to(self._device, non_blocking=True) for tensor in pinned]
        return moved, _event(stream)

    def hand_over(self, tensors: Sequence[torch.Tensor], copied: torch.cuda.Event) -> None:
        """Make the caller's current stream wait for a copy; return at once.

        Memory of the tensors is reused only after the current stream's work on them.
        """
        current = torch.cuda.current_stream(self._device)
        current.wait_event(copied)
        for tensor in tensors:
            tensor.record_stream(current)


class PinnedCopy:
    """Copies tensors to a GPU while the model works on the previous batch: a `Copy`.

    A copy from pageable memory on the model's stream would wait for the model. For one thread; the
    model runs on the default stream.
    """

    def __init__(self) -> None:
        """Prepare the stream; it is created with the first copy."""
        self._stream = CopyStream()

    def __call__(self, tensor: torch.Tensor, device: Device) -> torch.Tensor:
        """Return the tensor on the GPU, completely copied: the same tensor if it is there."""
        if tensor.device.type == device:
            return tensor
        [moved], copied = self._stream.begin([tensor])
        # The memory belongs to the copy stream and must not be reused while the model uses it.
        moved.record_stream(torch.cuda.default_stream())
        copied.synchronize()
        return moved


def _event(stream: torch.cuda.Stream) -> torch.cuda.Event:
    # Blocking: a waiting thread does not spin.
    event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    event.record(stream)
    return event
