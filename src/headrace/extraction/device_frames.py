"""Every frame of many videos, in order, on the device that decodes them."""

from collections.abc import Callable

import numpy as np
import torch

from headrace.decode.chooser import device_of
from headrace.decode.open import open_device_decoder
from headrace.decode.pixels import Array
from headrace.decode.protocol import Decoder
from headrace.errors import BackendError
from headrace.extraction.frames import BatchReader
from headrace.video.frames import DeviceBatch, FrameBatch
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex


class DeviceFrameReader(BatchReader[torch.Tensor, DeviceBatch]):
    """Reads every frame of its videos, in order: iterate it for DeviceBatch after DeviceBatch.

    As `FrameReader`, but for `decoding`, whose frames stay on its device, and `memory_budget`,
    which is of that device. Batches are whole when they come, for any CUDA stream. No GPU has run
    this yet; `Decoding(keeps_on_device=True)` goes the same way on the CPU.
    """

    def _open(self, index: StreamIndex, shape: FrameShape) -> "Decoder[torch.Tensor]":
        return open_device_decoder(index, shape, self._decoding, chooser=self._chooser)

    def _take(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return memory of the device.

        Raises:
            BackendError: it has none left.
        """
        device = device_of(self._decoding)
        try:
            return torch.empty(shape, dtype=torch.uint8, device=device)
        except RuntimeError as error:
            raise BackendError(
                f"{device} has no memory for {shape[0]} frames of {shape[1]}x{shape[2]} that stay "
                f"there: {str(error).partition(chr(10))[0]}; use smaller batches"
            ) from error

    def _made(self, frames: torch.Tensor, batch_of: Callable[[Array], FrameBatch]) -> DeviceBatch:
        black = np.broadcast_to(np.uint8(0), tuple(frames.shape))
        return DeviceBatch(frames=frames, places=batch_of(black))

    def _finish(self) -> None:
        device = device_of(self._decoding)
        if device != "cpu":
            torch.cuda.current_stream(device).synchronize()
