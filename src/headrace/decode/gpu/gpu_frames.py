"""GPU frames of any library: checked against the CPU's, copied to the CPU; and the codec pool.

Tested with a stand-in for the driver (tests/decode/test_nvdec.py); PyTorch's work on frames that
stay is tested on the CPU. So each decoder compares one frame with the CPU's. `pytest -k gpu` runs
all tests on a GPU.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import av
import numpy as np
from av.video.frame import PictureType, VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.decode.decode_session import StreamCodecs
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.protocol import DecodeCounters
from headrace.decode.yuv420 import PlanarConverter
from headrace.errors import BackendError
from headrace.runtime.fork_safety import ForkSafeLock, check_cuda_after_fork
from headrace.video.codec import Codec, DecodedFrame, VideoPacket, frame_alone, new_codec
from headrace.video.content_digest import rows_of
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    import torch

MAX_BYTES: Final = 1 << 30
"""Maximum bytes of GPU memory of idle codecs, by estimate."""


class FlushableCodec(Protocol):
    """A codec that can drop its decoding state."""

    def flush_buffers(self) -> None:
        """Drop the decoding state."""
        ...


_Kind = TypeVar("_Kind", bound=FlushableCodec)


class _IdleCodec(NamedTuple):
    key: Hashable
    codec: FlushableCodec
    num_bytes: int
    process: int


class CodecPool:
    """LRU pool of idle GPU codecs, reusable by streams with equal parameter sets. Thread-safe.

    Creating a GPU codec costs more than most jobs, because the driver allocates a decoder and its
    surfaces; a CPU codec takes 0.03 ms.

    After a fork, codecs of the parent process are never returned.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Start empty; above `max_bytes` the codecs idle for longest are freed."""
        self._max_bytes = max_bytes
        self._lock = ForkSafeLock()
        self._idle: list[_IdleCodec] = []

    def release(self, key: Hashable, codec: FlushableCodec, num_bytes: int) -> None:
        """Add a working codec to the pool.

        Args:
            key: All parameters of the stream; streams with equal keys may share the codec.
            codec: The codec, without pending frames.
            num_bytes: Upper bound of its GPU memory.
        """
        codec.flush_buffers()
        with self._lock:
            self._idle.append(_IdleCodec(key, codec, num_bytes, os.getpid()))
            released = []
            while sum(entry.num_bytes for entry in self._idle) > self._max_bytes:
                released.append(self._idle.pop(0))
        # Freed outside the lock: the driver is slow.
        del released

    def acquire(self, key: Hashable, kind: type[_Kind]) -> _Kind | None:
        """Remove and return a flushed codec with this key and class; None without a match."""
        with self._lock:
            for position in reversed(range(len(self._idle))):
                entry = self._idle[position]
                is_match = entry.key == key and entry.process == os.getpid()
                if is_match and isinstance(entry.codec, kind):
                    del self._idle[position]
                    return entry.codec
        return None

    def clear(self) -> bool:
        """Free all codecs of this process; return whether there were any."""
        process = os.getpid()
        with self._lock:
            released = [entry for entry in self._idle if entry.process == process]
            self._idle = [entry for entry in self._idle if entry.process != process]
        return bool(released)


IDLE_CODECS: Final = CodecPool()
"""The pool of this process."""


class GpuFrames(StreamCodecs, ABC):
    """GPU codecs of one stream, whose frames are checked. Not thread-safe: one per decoder.

    A subclass opens the codecs of a library.
    """

    _stream: VideoStream

    def __init__(
        self,
        decoding: DecoderConfig,
        index: StreamIndex,
        counters: DecodeCounters,
    ) -> None:
        """Use no GPU yet.

        Args:
            decoding: Backend, GPU, and whether frames stay there.
            index: The index of a stream within the backend's `CAPABILITIES`.
            counters: Counters to add bytes copied to the CPU to.
        """
        super().__init__(index)
        self._decoding = decoding
        self._request = f"{decoding.description} cannot decode {index.source}"
        self._to_planar = PlanarConverter(index.info.pixel_format)
        self._keyframes: dict[int, VideoPacket] = {}
        self._needs_check = True
        self._counters = counters

    def acquire_codec(
        self, stream: VideoStream, first: VideoPacket | None, doubled: Iterable[int] = ()
    ) -> Codec:
        """Return a new or a pooled codec on the GPU: see `StreamCodecs.acquire_codec`."""
        check_cuda_after_fork(self._request)
        self._stream = stream
        self._keyframes.clear()
        return self._acquire(stream, first)

    def release_codec(self, codec: Codec, *, is_working: bool) -> None:
        """Return a working codec to the pool; free any other."""
        self._release(codec, is_working=is_working)
        if not is_working:
            IDLE_CODECS.clear()  # it may have failed for lack of memory

    def check(
        self, packet_index: int, packet: VideoPacket | None, decoded: Sequence[DecodedFrame]
    ) -> None:
        """Check frames that were output after `packet` was sent.

        All must have the stream's initial size: FFmpeg rounds odd sizes up, and does not always
        follow a change of size. The first keyframe must equal the CPU's, bit by bit: FFmpeg drops
        cropping on the left or above, and codecs before H.264 leave rounding to the decoder. Cost:
        one frame decoded on the CPU and copied from the GPU, per decoder.

        Raises:
            BackendError: a frame differs.
        """
        info, device = self._index.info, self._decoding.description
        for _, frame in decoded:
            self._counters.brought_down_bytes += 0 if _is_on_gpu(frame) else _bytes_of(frame)
            if (frame.width, frame.height) != (info.width, info.height):
                raise BackendError(
                    f"{device} outputs frames of {frame.width}x{frame.height} for "
                    f"{self._index.source}, which starts with {info.width}x{info.height}: sizes "
                    "that are odd or change, and cropping on the left or above, need the CPU; "
                    f"{self._decoding.fix}"
                )
        if not self._needs_check:
            return
        if packet is not None and packet.is_keyframe:
            self._keyframes[packet_index] = packet
        for shown in decoded:
            expected = self._decode_on_cpu(shown.packet_index)
            if expected is None:
                continue
            if not _is_same(self.to_planar(shown.frame), expected):
                raise BackendError(
                    f"{device} outputs other pixels of {self._index.source} than the CPU; "
                    f"{self._decoding.fix}, or re-encode the file"
                )
            self._needs_check = False
            self._keyframes.clear()
            return

    def to_deliverable(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame for the converters: see `StreamCodecs.to_deliverable`."""
        return frame if self._decoding.keeps_on_device else self.to_planar(frame)

    def to_planar(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame on the CPU, in the CPU decoder's pixel format: see `PlanarConverter`."""
        planar = self._to_planar.convert(frame)
        self._counters.brought_down_bytes += _bytes_of(planar) if _is_on_gpu(frame) else 0
        return planar

    def check_lost(self, frame_index: int, decodes_on_cpu: Callable[[int], bool]) -> None:
        """Raise BackendError if the CPU decodes the frame: see `StreamCodecs.check_lost`."""
        if not decodes_on_cpu(frame_index):
            return
        info = self._index.info
        raise BackendError(
            f"{self._decoding.description} returned no frame {frame_index} of {self._index.source} "
            f"({info.codec} {info.profile}, {info.width}x{info.height}), which the CPU decodes: "
            "the GPU does not support this video, or has no decoder or memory left; "
            f"{self._decoding.fix}, or read fewer files at a time"
        )

    @abstractmethod
    def _acquire(self, stream: VideoStream, first: VideoPacket | None) -> Codec:
        """Return a new codec of the stream, or one from the pool."""

    @abstractmethod
    def _release(self, codec: Codec, *, is_working: bool) -> None:
        """Return a codec to the pool, if it works and can be reused."""

    def _decode_on_cpu(self, packet_index: int) -> VideoFrame | None:
        """Return the CPU's frame of a keyframe packet; None unless it decodes alone."""
        keyframe = self._keyframes.pop(packet_index, None)
        if keyframe is None:
            return None
        frame = frame_alone(new_codec(self._stream), keyframe)
        if frame is None or frame.is_corrupt or frame.pict_type != PictureType.I:
            return None
        return frame


_NAMES: Final = {1: "nv12", 2: "p010le"}
"""Bytes per value -> pixel format."""


class Nv12FrameBuilder:
    """Builds video frames from rows of NV12 or P016, with the color properties of FFmpeg's frames.

    PyAV does not expose the chroma location, which swscale follows. A frame converted by swscale
    keeps it, so frames copied to the CPU are written into a converted FFmpeg frame.
    """

    def __init__(self, gpu: int) -> None:
        """Start without color properties."""
        self.shape: tuple[int, int] | None = None
        """Shape of the rows; None until `learn` was called."""
        self._matrix = self._range = 0
        # PyTorch's context, current where frames are on the GPU. In PyAV since 17.
        self._context = av.video.frame.CudaContext(gpu, primary_ctx=False, current_ctx=True)

    def learn(self, frame: VideoFrame | None) -> None:
        """Take size and colors from a frame that the CPU decoded; None is ignored."""
        if frame is None:
            return
        is_8_bit = frame.format.components[0].bits == 8
        self.shape = (frame.height // 2 * 3, frame.width)
        self._matrix, self._range = frame.colorspace, frame.color_range
        self._rows = VideoReformatter().reformat(frame, format=_NAMES[1 if is_8_bit else 2])
        self._rows.colorspace, self._rows.color_range = self._matrix, self._range
        self._row_bytes = frame.width if is_8_bit else 2 * frame.width
        self._planar = PlanarConverter(frame.format.name)

    def planar(self, rows: NDArray[Any]) -> VideoFrame:
        """Return a copy of rows of `shape` in the CPU decoder's pixel format."""
        height = 0
        for plane in self._rows.planes:
            target = rows_of(plane, self._row_bytes)
            target[:] = rows[height : height + len(target)].view(np.uint8)
            height += len(target)
        return self._planar.convert(self._rows)

    def wrap(self, rows: torch.Tensor) -> VideoFrame:
        """Return rows as NV12 or P010 without a copy, on the GPU or the CPU."""
        height = rows.shape[0] // 3 * 2
        frame = VideoFrame.from_dlpack(
            [rows[:height], rows[height:]],
            format=_NAMES[rows.element_size()],
            cuda_context=self._context,
        )
        frame.colorspace, frame.color_range = self._matrix, self._range
        return frame


def _is_on_gpu(frame: VideoFrame) -> bool:
    return frame.format.name == "cuda"


def _bytes_of(frame: VideoFrame) -> int:
    return sum(plane.buffer_size for plane in frame.planes)


def _is_same(frame: VideoFrame, expected: VideoFrame) -> bool:
    """Return whether planar frames of one format are equal."""
    sample_bytes = (expected.format.components[0].bits + 7) // 8
    return all(
        np.array_equal(
            rows_of(plane, plane.width * sample_bytes), rows_of(other, other.width * sample_bytes)
        )
        for plane, other in zip(frame.planes, expected.planes, strict=True)
    )
