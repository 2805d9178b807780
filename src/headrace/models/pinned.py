"""Copying to a GPU beside what it computes: from page-locked memory, on a stream of its own."""

import torch

from headrace.models.precision import Device


class PinnedCopy:
    """Takes tensors to a GPU while the model is at work there on the one before: a `Copy`.

    A copy from ordinary memory, on the stream the model runs on, waits for the model; this one does
    not. It costs a copy into page-locked memory, which PyTorch keeps and uses again. For one
    thread; the model runs on the default stream.
    """

    def __init__(self) -> None:
        """Nothing is made on the GPU before the first copy."""
        self._stream: torch.cuda.Stream | None = None

    def __call__(self, tensor: torch.Tensor, device: Device) -> torch.Tensor:
        """Return the tensor on the GPU, whole when this returns; itself where it lies there."""
        if tensor.device.type == device:
            return tensor
        stream = self._stream = self._stream or torch.cuda.Stream()  # type: ignore[no-untyped-call]
        pinned = tensor.pin_memory()
        with torch.cuda.stream(stream):
            moved = pinned.to(device, non_blocking=True)
            # Blocking: who waits for it leaves the processor to others.
            copied = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            copied.record(stream)
        # Its memory is this stream's, and must not be used again before the model is done with it.
        moved.record_stream(torch.cuda.default_stream())
        copied.synchronize()
        return moved
