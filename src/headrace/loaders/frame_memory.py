"""FrameMemory: memory for the frames of a run, and decoders that write into it."""

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
from headrace.decode.frame_outputs import Array, Pixels, device_memory
from headrace.decode.gpu.gpu_decoding import DeviceScheduler, device_of, tensor_converter
from headrace.decode.open_decoder import open_decoder, open_device_decoder
from headrace.decode.protocol import Decoder
from headrace.decode.proxy_decoder import ProxyCodecs
from headrace.decode.yuv420 import Yuv420Unpacker
from headrace.runtime.buffer_pool import BatchBufferPool, mmap_zeros
from headrace.video.frame_format import FrameFormat, PixelType
from headrace.video.stream_index import StreamIndex

_FRAMES_AT_ONCE = 64
"""Frames of a slab, the unit in which memory is mapped."""


class FrameBuffers:
    """Pool of arrays, one for each held frame. Thread-safe."""

    def __init__(self, shape: tuple[int, ...], dtype: PixelType = "uint8") -> None:
        """No array yet."""
        self.shape = shape
        """Shape of each array."""
        self.frame_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        self._dtype = dtype
        self._free: deque[NDArray[np.uint8]] = deque()

    def take(self) -> NDArray[np.uint8]:
        """Return an array of `shape`; its content is undefined."""
        try:
            return self._free.pop()
        except IndexError:
            # The system provides memory page by page, when frames are written.
            slab = mmap_zeros((_FRAMES_AT_ONCE, *self.shape), self._dtype)
            self._free.extend(slab[1:])
            frame: NDArray[np.uint8] = slab[0]
            return frame

    def give(self, frame: NDArray[np.uint8]) -> None:
        """Return an array to the pool; it must not be read any more."""
        self._free.append(frame)

    def clear(self) -> None:
        """Free the arrays in the pool."""
        self._free.clear()


class DeviceBuffers:
    """Tensors on a device, in place of `FrameBuffers` and `BatchBufferPool`. Thread-safe.

    PyTorch pools the memory of freed tensors itself. headrace queues work on them in the CUDA
    stream of the calling thread: the default stream, unless that thread chose another.
    """

    def __init__(self, device: str) -> None:
        """Touch no device yet."""
        self.device = device

    def acquire(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return uint8 of `shape`; its content is undefined.

        Raises:
            BackendError: the device is out of memory.
        """
        return device_memory(shape, self.device)

    def hand_over(self, tensors: Iterable[torch.Tensor]) -> None:
        """Make the CUDA stream of this thread wait for the default stream, and use the tensors."""
        if torch.device(self.device).type != "cuda":
            return
        current = torch.cuda.current_stream(self.device)
        default = torch.cuda.default_stream(self.device)
        if current == default:
            return
        current.wait_stream(default)
        for tensor in tensors:
            # Otherwise PyTorch reuses its memory before this stream has read it.
            tensor.record_stream(current)

    def close(self) -> None:
        """Do nothing: PyTorch pools free memory."""


_BATCHES = 2
"""Batches that the budget reserves: the caller's and the next one."""


class FrameMemory(Protocol[Pixels]):
    """Memory on the CPU or a device, and decoders that write into it; one for a run.

    Thread-safe, except for batches.
    """

    @property
    def shape(self) -> FrameFormat:
        """Format of frames that wait; its size is given."""
        ...

    def decoder(
        self, index: StreamIndex, shape: FrameFormat, decoding: DecoderConfig, codecs: ProxyCodecs
    ) -> Decoder[Pixels]:
        """Return a decoder of a video, for one thread; the caller closes it.

        Raises:
            BackendError: the decoder cannot decode this video.
        """
        ...

    def converter(self, index: StreamIndex, shape: FrameFormat) -> Converter[Pixels]:
        """Return a converter of a video's frames to another format, for one thread."""
        ...

    def take(self) -> Pixels:
        """Return memory for a frame that waits; its content is undefined."""
        ...

    def give(self, frame: Pixels) -> None:
        """Release memory of a frame; it must not be read any more."""
        ...

    def batch(self, shape: tuple[int, ...]) -> AbstractContextManager[Pixels]:
        """Provide memory of `shape` for a batch, which this thread fills inside the `with` block.

        After the block, the batch is ready for this thread.
        """
        ...

    def write(self, frame: Pixels, row: Pixels) -> None:
        """Write a frame that has waited into its row of a batch."""
        ...

    def close(self) -> None:
        """Free unused memory now, and the rest when its last reference is gone."""
        ...


class ArrayMemory:
    """Arrays on the CPU."""

    def __init__(self, shape: FrameFormat, scheduler: DeviceScheduler | None = None) -> None:
        """Take no memory yet; `scheduler` as in `open_decoder`."""
        assert shape.size is not None
        self.shape = shape
        self._scheduler = scheduler
        self._frames = FrameBuffers(shape.array_shape(shape.size), shape.dtype)
        self._batches = BatchBufferPool(_BATCHES)
        self._unpacker = Yuv420Unpacker() if shape.layout == "yuv420" else None

    def decoder(
        self, index: StreamIndex, shape: FrameFormat, decoding: DecoderConfig, codecs: ProxyCodecs
    ) -> Decoder[Array]:
        """Return a decoder with frames on the CPU."""
        return open_decoder(index, shape, decoding, codecs=codecs, scheduler=self._scheduler)

    def converter(self, index: StreamIndex, shape: FrameFormat) -> Converter[Array]:
        """Return a converter to arrays."""
        return ArrayConverter(shape, index.info.orientation, str(index.source))

    def take(self) -> Array:
        """Return an array for a frame, in the layout of the format."""
        return self._frames.take()

    def give(self, frame: Array) -> None:
        """Release an array for another frame."""
        self._frames.give(frame)

    @contextmanager
    def batch(self, shape: tuple[int, ...]) -> Iterator[Array]:
        """Provide an array, whose memory returns to the pool when it is garbage-collected."""
        yield self._batches.acquire(shape, self.shape.dtype)

    def write(self, frame: Array, row: Array) -> None:
        """Write a frame as RGB."""
        if self._unpacker is None:
            row[...] = frame
        else:
            self._unpacker.unpack(frame, row)

    def close(self) -> None:
        """Free unused memory now, and the rest when its last reference is gone."""
        self._frames.clear()
        self._batches.close()


class TensorMemory:
    """Tensors on the device that decodes them.

    All work on them is queued in the device's default CUDA stream, which decoding threads use. The
    stream of the thread that takes batches waits for the default stream, if it is another.
    """

    def __init__(
        self, shape: FrameFormat, device: str, scheduler: DeviceScheduler | None = None
    ) -> None:
        """Touch no device yet; `scheduler` as in `open_device_decoder`."""
        assert shape.size is not None
        self.shape = shape
        self._scheduler = scheduler
        self._frame_shape = shape.array_shape(shape.size)
        self._buffers = DeviceBuffers(device)

    def decoder(
        self, index: StreamIndex, shape: FrameFormat, decoding: DecoderConfig, codecs: ProxyCodecs
    ) -> Decoder[torch.Tensor]:
        """Return a decoder with frames on the device; it decodes no proxies."""
        return open_device_decoder(index, shape, decoding, scheduler=self._scheduler)

    def converter(self, index: StreamIndex, shape: FrameFormat) -> Converter[torch.Tensor]:
        """Return a converter to tensors on the device."""
        return tensor_converter(index, shape, self._buffers.device)

    def take(self) -> torch.Tensor:
        """Return a tensor for a frame. Raises as `DeviceBuffers.take` does."""
        return self._buffers.acquire(self._frame_shape)

    def give(self, frame: torch.Tensor) -> None:
        """Do nothing: PyTorch reuses the memory when the tensor's last reference is gone."""

    @contextmanager
    def batch(self, shape: tuple[int, ...]) -> Iterator[torch.Tensor]:
        """Provide a tensor, filled in the default stream. Raises as `DeviceBuffers.take` does."""
        device = self._buffers.device
        if torch.device(device).type != "cuda":
            yield self._buffers.acquire(shape)
            return
        with torch.cuda.stream(torch.cuda.default_stream(device)):
            pixels = self._buffers.acquire(shape)
            yield pixels
        self._buffers.hand_over([pixels])

    def write(self, frame: torch.Tensor, row: torch.Tensor) -> None:
        """Copy a frame on the device."""
        row.copy_(frame)

    def close(self) -> None:
        """Free unused memory."""
        self._buffers.close()


def memory_of(
    shape: FrameFormat, decoding: DecoderConfig, scheduler: DeviceScheduler | None = None
) -> FrameMemory[Any]:
    """Return the memory of frames that `decoding` decodes; `scheduler` schedules their jobs."""
    if decoding.keeps_on_device:
        return TensorMemory(shape, device_of(decoding), scheduler)
    return ArrayMemory(shape, scheduler)
