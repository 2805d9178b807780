"""GPU frames of any library: checked against the CPU's, and copied to the CPU.

Tested with a stand-in for the driver (tests/decode/test_nvdec.py); PyTorch's work on frames that
stay is tested on the CPU. So each decoder compares one frame with the CPU's. `pytest -k gpu` runs
all tests on a GPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from av.video.frame import PictureType, VideoFrame
from av.video.stream import VideoStream

from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.gpu.codec_pool import IDLE_CODECS
from headrace.decode.protocol import DecodeCounters
from headrace.decode.stream_codecs import StreamCodecs
from headrace.decode.yuv_to_rgb import PlanarConverter
from headrace.errors import BackendError
from headrace.runtime.fork_safety import check_cuda_after_fork
from headrace.video.codec import Codec, DecodedFrame, VideoPacket, frame_alone, new_codec
from headrace.video.content_digest import rows_of
from headrace.video.stream_index import StreamIndex


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
