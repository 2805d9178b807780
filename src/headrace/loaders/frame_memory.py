"""FrameMemory: of which kind the frames of a run are, and the memory that they are put in."""

import math
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.decode.converter import ArrayConverter, Converter
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.device_scheduler import DeviceScheduler, device_of
from headrace.decode.frame_outputs import Array, Pixels, device_memory
from headrace.decode.open_decoder import open_decoder, open_device_decoder
from headrace.decode.protocol import Decoder
from headrace.decode.proxy_decoder import ProxyCodecs
from headrace.decode.tensor_converter import TensorConverter
from headrace.decode.yuv420 import Yuv420Unpacker
from headrace.runtime.buffer_pool import BatchBufferPool, mapped
from headrace.video.frame_format import FrameFormat, PixelType
from headrace.video.stream_index import StreamIndex

_FRAMES_AT_ONCE = 64


class FrameBuffers:
    """Arrays for one held frame each, used again and again. Thread-safe."""

    def __init__(self, shape: tuple[int, ...], dtype: PixelType = "uint8") -> None:
        """No array yet."""
        self.shape = shape
        """Of each array."""
        self.frame_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        self._dtype = dtype
        self._free: deque[NDArray[np.uint8]] = deque()

    def take(self) -> NDArray[np.uint8]:
        """Return an array of `shape`, of any content."""
        try:
            return self._free.pop()
        except IndexError:
            # Memory is taken page by page, as frames are written.
            slab = mapped((_FRAMES_AT_ONCE, *self.shape), self._dtype)
            self._free.extend(slab[1:])
            frame: NDArray[np.uint8] = slab[0]
            return frame

    def give(self, frame: NDArray[np.uint8]) -> None:
        """Hand back an array that nobody reads any more."""
        self._free.append(frame)

    def clear(self) -> None:
        """Let go of the arrays that nobody uses."""
        self._free.clear()


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


_BATCHES = 2
"""That the budget sets aside: the one the caller has, and the next one."""


class FrameMemory(Protocol[Pixels]):
    """Memory of one kind, and what decodes into it: one for a run. Thread-safe, but for batches."""

    @property
    def shape(self) -> FrameFormat:
        """What frames are made into while they wait; it has a size."""
        ...

    def decoder(
        self, index: StreamIndex, shape: FrameFormat, decoding: DecoderConfig, codecs: ProxyCodecs
    ) -> Decoder[Pixels]:
        """Return a decoder of a video, for one thread; the caller closes it.

        Raises:
            BackendError: such video cannot be decoded that way.
        """
        ...

    def converter(self, index: StreamIndex, shape: FrameFormat) -> Converter[Pixels]:
        """Return what makes frames of a video into a further shape, for one thread."""
        ...

    def take(self) -> Pixels:
        """Return memory for a frame that waits, of any content."""
        ...

    def give(self, frame: Pixels) -> None:
        """Hand back such memory that nobody reads any more."""
        ...

    def batch(self, shape: tuple[int, ...]) -> AbstractContextManager[Pixels]:
        """Give memory of `shape` for a batch, of any content; it is filled inside, by this thread.

        Behind it the batch is ready for whatever this thread does with it.
        """
        ...

    def write(self, frame: Pixels, row: Pixels) -> None:
        """Write a frame that has waited where it belongs in a batch."""
        ...

    def close(self) -> None:
        """Let go of what is free, and of the rest when nobody has it any more."""
        ...


class ArrayMemory:
    """Arrays on the CPU."""

    def __init__(self, shape: FrameFormat, chooser: DeviceScheduler | None = None) -> None:
        """Take no memory yet; `chooser` is for decoders, as `open_decoder` takes it."""
        assert shape.size is not None
        self.shape = shape
        self._chooser = chooser
        self._frames = FrameBuffers(shape.array_shape(shape.size), shape.dtype)
        self._batches = BatchBufferPool(_BATCHES)
        self._unpacker = Yuv420Unpacker()

    def decoder(
        self, index: StreamIndex, shape: FrameFormat, decoding: DecoderConfig, codecs: ProxyCodecs
    ) -> Decoder[Array]:
        """Return a decoder whose frames come down to the CPU."""
        return open_decoder(index, shape, decoding, codecs=codecs, chooser=self._chooser)

    def converter(self, index: StreamIndex, shape: FrameFormat) -> Converter[Array]:
        """Return what makes frames into arrays."""
        return ArrayConverter(shape, index.info.orientation, str(index.source))

    def take(self) -> Array:
        """Return an array for a frame, in the layout of the shape."""
        return self._frames.take()

    def give(self, frame: Array) -> None:
        """Take back an array, for another frame."""
        self._frames.give(frame)

    @contextmanager
    def batch(self, shape: tuple[int, ...]) -> Iterator[Array]:
        """Give an array whose memory comes back by itself."""
        yield self._batches.take(shape, self.shape.dtype)

    def write(self, frame: Array, row: Array) -> None:
        """Write a frame as RGB."""
        if self.shape.layout == "yuv420":
            self._unpacker.unpack(frame, row)
        else:
            row[...] = frame

    def close(self) -> None:
        """Let go of what is free, and of the rest when nobody has it any more."""
        self._frames.clear()
        self._batches.close()


class TensorMemory:
    """Tensors on the device that decodes them.

    All work on them is asked of the device's default CUDA stream, which is that of the threads that
    decode. A thread that takes batches may have a stream of its own: it waits for that one.
    """

    def __init__(
        self, shape: FrameFormat, device: str, chooser: DeviceScheduler | None = None
    ) -> None:
        """Touch no device yet; `chooser` is for decoders, as `open_device_decoder` takes it."""
        assert shape.size is not None
        self.shape = shape
        self._chooser = chooser
        self._frame_shape = shape.array_shape(shape.size)
        self._buffers = DeviceBuffers(device)

    def decoder(
        self, index: StreamIndex, shape: FrameFormat, decoding: DecoderConfig, codecs: ProxyCodecs
    ) -> Decoder[torch.Tensor]:
        """Return a decoder whose frames stay on the device; of proxies there is none."""
        return open_device_decoder(index, shape, decoding, chooser=self._chooser)

    def converter(self, index: StreamIndex, shape: FrameFormat) -> Converter[torch.Tensor]:
        """Return what makes frames into tensors, where they lie."""
        return TensorConverter.of(index, shape, self._buffers.device)

    def take(self) -> torch.Tensor:
        """Return a tensor for a frame. Raises as `DeviceBuffers.take` does."""
        return self._buffers.take(self._frame_shape)

    def give(self, frame: torch.Tensor) -> None:
        """Do nothing: PyTorch has the memory again when the last who has the frame forgets it."""

    @contextmanager
    def batch(self, shape: tuple[int, ...]) -> Iterator[torch.Tensor]:
        """Give a tensor, and this thread the default stream while it is filled. Raises likewise."""
        device = self._buffers.device
        if torch.device(device).type != "cuda":
            yield self._buffers.take(shape)
            return
        with torch.cuda.stream(torch.cuda.default_stream(device)):
            pixels = self._buffers.take(shape)
            yield pixels
        self._buffers.hand_over([pixels])

    def write(self, frame: torch.Tensor, row: torch.Tensor) -> None:
        """Copy a frame on the device."""
        row.copy_(frame)

    def close(self) -> None:
        """Let go of what is free."""
        self._buffers.close()


def memory_of(
    shape: FrameFormat, decoding: DecoderConfig, chooser: DeviceScheduler | None = None
) -> FrameMemory[Any]:
    """Return the memory of frames that are decoded that way; `chooser` sends their jobs."""
    if decoding.keeps_on_device:
        return TensorMemory(shape, device_of(decoding), chooser)
    return ArrayMemory(shape, chooser)
