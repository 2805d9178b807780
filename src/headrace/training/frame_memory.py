"""FrameMemory: of which kind the frames of a run are, and the memory that they are put in."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch

from headrace.decode.chooser import Chooser, device_of
from headrace.decode.conversion import Converter
from headrace.decode.convert import FrameConverter
from headrace.decode.decoding import Decoding
from headrace.decode.open import open_decoder, open_device_decoder
from headrace.decode.pixels import Array, Pixels
from headrace.decode.protocol import Decoder
from headrace.decode.proxy_codecs import ProxyCodecs
from headrace.decode.tensor_convert import TensorConverter
from headrace.decode.yuv420 import Yuv420Unpacker
from headrace.runtime.memory import BatchBuffers
from headrace.training.device_buffers import DeviceBuffers
from headrace.training.frame_buffers import FrameBuffers
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex

_BATCHES = 2
"""That the budget sets aside: the one the caller has, and the next one."""


class FrameMemory(Protocol[Pixels]):
    """Memory of one kind, and what decodes into it: one for a run. Thread-safe, but for batches."""

    @property
    def shape(self) -> FrameShape:
        """What frames are made into while they wait; it has a size."""
        ...

    def decoder(
        self, index: StreamIndex, shape: FrameShape, decoding: Decoding, codecs: ProxyCodecs
    ) -> Decoder[Pixels]:
        """Return a decoder of a video, for one thread; the caller closes it.

        Raises:
            BackendError: such video cannot be decoded that way.
        """
        ...

    def converter(self, index: StreamIndex, shape: FrameShape) -> Converter[Pixels]:
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

    def __init__(self, shape: FrameShape, chooser: Chooser | None = None) -> None:
        """Take no memory yet; `chooser` is for decoders, as `open_decoder` takes it."""
        assert shape.size is not None
        self.shape = shape
        self._chooser = chooser
        self._frames = FrameBuffers(shape.array_shape(shape.size), shape.dtype)
        self._batches = BatchBuffers(_BATCHES)
        self._unpacker = Yuv420Unpacker()

    def decoder(
        self, index: StreamIndex, shape: FrameShape, decoding: Decoding, codecs: ProxyCodecs
    ) -> Decoder[Array]:
        """Return a decoder whose frames come down to the CPU."""
        return open_decoder(index, shape, decoding, codecs=codecs, chooser=self._chooser)

    def converter(self, index: StreamIndex, shape: FrameShape) -> Converter[Array]:
        """Return what makes frames into arrays."""
        return FrameConverter(shape, index.info.orientation, str(index.source))

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

    def __init__(self, shape: FrameShape, device: str, chooser: Chooser | None = None) -> None:
        """Touch no device yet; `chooser` is for decoders, as `open_device_decoder` takes it."""
        assert shape.size is not None
        self.shape = shape
        self._chooser = chooser
        self._frame_shape = shape.array_shape(shape.size)
        self._buffers = DeviceBuffers(device)

    def decoder(
        self, index: StreamIndex, shape: FrameShape, decoding: Decoding, codecs: ProxyCodecs
    ) -> Decoder[torch.Tensor]:
        """Return a decoder whose frames stay on the device; of proxies there is none."""
        return open_device_decoder(index, shape, decoding, chooser=self._chooser)

    def converter(self, index: StreamIndex, shape: FrameShape) -> Converter[torch.Tensor]:
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
    shape: FrameShape, decoding: Decoding, chooser: Chooser | None = None
) -> FrameMemory[Any]:
    """Return the memory of frames that are decoded that way; `chooser` sends their jobs."""
    if decoding.keeps_on_device:
        return TensorMemory(shape, device_of(decoding), chooser)
    return ArrayMemory(shape, chooser)
