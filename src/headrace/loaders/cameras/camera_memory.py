"""PictureMemory: of which kind the pictures of a run are, and what gives them memory and pixels."""

from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch

from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.device_scheduler import DeviceScheduler, device_of
from headrace.decode.frame_outputs import Array, Pixels
from headrace.decode.open_decoder import open_decoder, open_device_decoder
from headrace.decode.protocol import Decoder
from headrace.loaders.frame_memory import DeviceBuffers
from headrace.runtime.buffer_pool import BatchBufferPool, mmap_zeros
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex


class PictureMemory(Protocol[Pixels]):
    """Memory of one kind, and decoders that write into it: one for a run. Thread-safe."""

    def batch(self, shape: tuple[int, ...]) -> Pixels:
        """Return uint8 of `shape`, of any content, for all pictures of a batch."""
        ...

    def black(self, size: tuple[int, int]) -> Pixels:
        """Return a black picture of a (height, width), uint8 [H, W, 3], in memory of its own."""
        ...

    def copy(self, pixels: Pixels) -> Pixels:
        """Return the same pixels in memory of their own."""
        ...

    def decoder(self, index: StreamIndex, shape: FrameFormat) -> Decoder[Pixels]:
        """Return a decoder of a video, for one thread; the caller closes it.

        Raises:
            BackendError: such video cannot be decoded that way.
        """
        ...

    def hand_over(self, pixels: Pixels | list[list[Pixels]]) -> None:
        """Make the pictures of a batch ready for what this thread does with them next."""
        ...

    def close(self) -> None:
        """Let go of what is free, and of the rest when nobody has it any more."""
        ...


class ArrayPictures:
    """Arrays on the CPU."""

    def __init__(
        self, decoding: DecoderConfig, most: int, chooser: DeviceScheduler | None = None
    ) -> None:
        """Take no memory yet; `most` batches are used again, `chooser` is for decoders."""
        self._decoding = decoding
        self._chooser = chooser
        self._buffers = BatchBufferPool(most)

    def batch(self, shape: tuple[int, ...]) -> Array:
        """Return memory of `shape`, which comes back by itself."""
        return self._buffers.acquire(shape)

    def black(self, size: tuple[int, int]) -> Array:
        """Return a black picture."""
        return mmap_zeros((*size, 3)) if all(size) else np.zeros((*size, 3), np.uint8)

    def copy(self, pixels: Array) -> Array:
        """Return the same pixels in memory of their own."""
        return pixels.copy()

    def decoder(self, index: StreamIndex, shape: FrameFormat) -> Decoder[Array]:
        """Return a decoder whose frames come down to the CPU."""
        return open_decoder(index, shape, self._decoding, chooser=self._chooser)

    def hand_over(self, pixels: Array | list[list[Array]]) -> None:
        """Do nothing: they are."""

    def close(self) -> None:
        """Let go of what is free, and of the rest when nobody has it any more."""
        self._buffers.close()


class TensorPictures:
    """Tensors on the device that decodes them.

    All work on them is asked of the device's default CUDA stream, which is that of the threads that
    decode. A thread that takes batches may have a stream of its own: it waits for that one.
    """

    def __init__(self, decoding: DecoderConfig, chooser: DeviceScheduler | None = None) -> None:
        """Touch no device yet; `chooser` is for decoders."""
        self._decoding = decoding
        self._chooser = chooser
        self._buffers = DeviceBuffers(device_of(decoding))

    def batch(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return memory of `shape` on the device. Raises as `DeviceBuffers.take` does."""
        return self._buffers.acquire(shape)

    def black(self, size: tuple[int, int]) -> torch.Tensor:
        """Return a black picture on the device. Raises likewise."""
        return self._buffers.acquire((*size, 3)).zero_()

    def copy(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the same pixels in memory of their own on the device."""
        return pixels.clone()

    def decoder(self, index: StreamIndex, shape: FrameFormat) -> Decoder[torch.Tensor]:
        """Return a decoder whose frames stay on the device."""
        return open_device_decoder(index, shape, self._decoding, chooser=self._chooser)

    def hand_over(self, pixels: torch.Tensor | list[list[torch.Tensor]]) -> None:
        """Let the CUDA stream of this thread wait for the default one, and keep their memory."""
        self._buffers.hand_over([pixels] if isinstance(pixels, torch.Tensor) else chain(*pixels))

    def close(self) -> None:
        """Let go of what is free."""
        self._buffers.close()


def memory_of(
    decoding: DecoderConfig, most: int, chooser: DeviceScheduler | None = None
) -> PictureMemory[Any]:
    """Return the memory of what is decoded that way, of which `most` batches are used again.

    `chooser` sends its jobs, where there is a choice.
    """
    if decoding.keeps_on_device:
        return TensorPictures(decoding, chooser)
    return ArrayPictures(decoding, most, chooser)
