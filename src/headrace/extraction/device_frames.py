"""Every frame of many videos, in order, on the device that decodes them."""

from collections.abc import Callable

import numpy as np
import torch

from headrace.decode.chooser import device_of
from headrace.decode.device_memory import device_memory
from headrace.decode.pixels import Array
from headrace.extraction.frames import BatchReader
from headrace.video.frames import DeviceBatch, FrameBatch


class DeviceFrameReader(BatchReader[torch.Tensor, DeviceBatch]):
    """Reads every frame of its videos, in order: iterate it for DeviceBatch after DeviceBatch.

    As `FrameReader`, but for `decoding`, whose frames stay on its device, and `memory_budget`,
    which is of that device. Batches are whole when they come, for any CUDA stream. No GPU has run
    this yet; `Decoding(keeps_on_device=True)` goes the same way on the CPU.
    """

    def _take(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return memory of the device. Raises as `device_memory` does."""
        return device_memory(shape, device_of(self._decoding))

    def _made(self, frames: torch.Tensor, batch_of: Callable[[Array], FrameBatch]) -> DeviceBatch:
        black = np.broadcast_to(np.uint8(0), tuple(frames.shape))
        return DeviceBatch(frames=frames, places=batch_of(black))

    def _finish(self) -> None:
        device = device_of(self._decoding)
        if device != "cpu":
            torch.cuda.current_stream(device).synchronize()
