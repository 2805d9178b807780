"""Data on its way to a device: pinned copies for a GPU, none where it lies there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.models.compute import Device

Copy = Callable[[torch.Tensor, Device], torch.Tensor]
"""Gives the tensor on the device: the same tensor where it lies there already."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Transferred:
    """A tensor that is where it was wanted."""

    tensor: torch.Tensor
    bytes_copied: int
    """0 where nothing had to be copied: it lay there already."""


def copy_to(tensor: torch.Tensor, device: Device) -> torch.Tensor:
    """Return the tensor on the device. From pageable memory; the caller waits for it."""
    return tensor.to(device)


def copy_for(device: Device) -> Copy:
    """Return how one thread best copies batch after batch to a device."""
    return copy_to if device == "cpu" else PinnedCopy()


def transfer(
    data: torch.Tensor | NDArray[np.uint8], device: Device, *, copy: Copy = copy_to
) -> Transferred:
    """Take a tensor to a device. On the CPU nothing is copied.

    Before preprocessing it takes frames (uint8, one byte a number), which are then preprocessed on
    the device; after it, batches (float32, four).

    Args:
        data: What to take there; an array lies on the CPU.
        device: Where to.
        copy: How; a test hands in one that is slow on purpose.
    """
    tensor = torch.from_numpy(data) if isinstance(data, np.ndarray) else data
    moved = copy(tensor, device)
    return Transferred(tensor=moved, bytes_copied=0 if moved is tensor else moved.nbytes)


class CopyStream:
    """A stream of a GPU that copies, while other streams of it are at work. For one thread.

    It costs a copy into page-locked memory, which PyTorch keeps and uses again.
    """

    def __init__(self, device: torch.device | str = "cuda") -> None:
        """Make nothing on the GPU before the first copy."""
        self._device = torch.device(device)
        self._stream: torch.cuda.Stream | None = None

    def mark(self) -> torch.cuda.Event:
        """Return an event behind all that the caller's current stream was asked for so far."""
        return _event(torch.cuda.current_stream(self._device))

    def begin(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], torch.cuda.Event]:
        """Begin to copy tensors of the CPU; return those on the GPU, and when they are whole.

        Their memory is this stream's: `hand_over` gives it to another, or `record_stream`.
        """
        stream = self._stream = self._stream or torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        pinned = [tensor.pin_memory() for tensor in tensors]
        with torch.cuda.stream(stream):
            moved = [each.to(self._device, non_blocking=True) for each in pinned]
        return moved, _event(stream)

    def hand_over(self, tensors: Sequence[torch.Tensor], copied: torch.cuda.Event) -> None:
        """Let what the caller's current stream is asked for next wait for a copy.

        The process goes on at once. Memory of the tensors is not used again before that is done.
        """
        current = torch.cuda.current_stream(self._device)
        current.wait_event(copied)
        for tensor in tensors:
            tensor.record_stream(current)


class PinnedCopy:
    """Takes tensors to a GPU while the model is at work there on the one before: a `Copy`.

    A copy from ordinary memory, on the stream the model runs on, waits for the model; this one does
    not. For one thread; the model runs on the default stream.
    """

    def __init__(self) -> None:
        """Nothing is made on the GPU before the first copy."""
        self._stream = CopyStream()

    def __call__(self, tensor: torch.Tensor, device: Device) -> torch.Tensor:
        """Return the tensor on the GPU, whole when this returns; itself where it lies there."""
        if tensor.device.type == device:
            return tensor
        [moved], copied = self._stream.begin([tensor])
        # Its memory is that stream's, and must not be used again before the model is done with it.
        moved.record_stream(torch.cuda.default_stream())
        copied.synchronize()
        return moved


def _event(stream: torch.cuda.Stream) -> torch.cuda.Event:
    # Blocking: who waits for it leaves the processor to others.
    event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    event.record(stream)
    return event
