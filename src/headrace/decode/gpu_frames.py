"""Frames that a GPU decodes, whatever library asks it to: held against the CPU's, and brought down.

Not yet run on a GPU by us. What FFmpeg and this file do there was run with a stand-in for the
driver: tests/decode/test_nvdec.py. What PyTorch does with frames that stay was run on the CPU only.
So each decoder holds a picture against the CPU's. `pytest -k gpu` does all of it on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from av.video.frame import PictureType, VideoFrame
from av.video.stream import VideoStream

from headrace.decode.codec_pool import RESTING
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.nvdec import Nvdec
from headrace.decode.protocol import DecodeCounters
from headrace.decode.pynvvideocodec_decoder import PyNvVideoCodecs
from headrace.decode.yuv_to_rgb import Planar
from headrace.errors import BackendError
from headrace.video.codec import Codec, DecodedFrame, VideoPacket, frame_alone, new_codec
from headrace.video.content_digest import rows_of
from headrace.video.stream_index import StreamIndex


class GpuCodecs(Protocol):
    """A library's codecs of one stream on a GPU. Not thread-safe."""

    def codec(self, stream: VideoStream, first: VideoPacket | None) -> Codec:
        """Return a codec of the stream that knows nothing yet: a new one, or one that rested.

        Args:
            stream: It.
            first: Its first packet, which every codec of it is told.

        Raises:
            BackendError: there is no such GPU, or the library has no such codec for it; or this
                process was forked from one that uses CUDA.
        """
        ...

    def let_rest(self, codec: Codec, *, is_sound: bool) -> None:
        """Take back a codec that this one made, for whoever next wants such a one.

        Args:
            codec: It.
            is_sound: Whether it works. One that does not is not kept.
        """
        ...


class GpuFrames:
    """What a decoder of one stream needs of a GPU. Not thread-safe: one per decoder."""

    _stream: VideoStream

    def __init__(
        self,
        decoding: DecoderConfig,
        index: StreamIndex,
        counters: DecodeCounters | None = None,
        codecs: GpuCodecs | None = None,
    ) -> None:
        """Touch no GPU yet.

        Args:
            decoding: What decodes, on which GPU, and whether frames stay there.
            index: The frames there are, of what that way is asked for: see its `CAPABILITIES`.
            counters: Told of the bytes that come down; None: some of its own.
            codecs: What makes codecs; None: the library that `decoding` names.
        """
        self._decoding = decoding
        self._index = index
        self._codecs = codecs or _codecs_of(decoding, index)
        self._planar = Planar(index.info.pixel_format)
        self._keyframes: dict[int, VideoPacket] = {}
        self._needs_check = True
        self._counters = DecodeCounters() if counters is None else counters

    @property
    def brought_down_bytes(self) -> int:
        """Bytes of the frames that came down so far, as they lie in main memory."""
        return self._counters.brought_down_bytes

    def codec(self, stream: VideoStream, first: VideoPacket | None) -> Codec:
        """Return a codec of the stream, on the GPU: see `GpuCodecs.codec`."""
        self._stream = stream
        self._keyframes.clear()
        return self._codecs.codec(stream, first)

    def let_rest(self, codec: Codec, *, is_sound: bool) -> None:
        """Take back the codec: see `GpuCodecs.let_rest`."""
        self._codecs.let_rest(codec, is_sound=is_sound)
        if not is_sound:
            RESTING.release()  # They may hold the memory that it lacked.

    def check(self, ordinal: int, packet: VideoPacket | None, came: Sequence[DecodedFrame]) -> None:
        """Check frames that came out after `packet` went in.

        All must be as large as the stream began. FFmpeg rounds odd sizes up, and does not always
        follow a stream that changes its size. And the first keyframe must be the CPU's, bit by bit:
        FFmpeg forgets what is cropped on the left or above, and codecs before H.264 leave rounding
        to the decoder. It costs one picture on the CPU for each decoder; that one is brought down
        also where frames stay.

        Raises:
            BackendError: they are not.
        """
        info, named = self._index.info, self._decoding.in_words
        for _, frame in came:
            self._counters.brought_down_bytes += 0 if _is_on_gpu(frame) else _bytes_of(frame)
            if (frame.width, frame.height) != (info.width, info.height):
                raise BackendError(
                    f"{named} gives pictures of {frame.width}x{frame.height} of "
                    f"{self._index.source}, which begins with {info.width}x{info.height}: sizes "
                    "that are odd or change, and cropping on the left or above, are for the CPU; "
                    f"{self._decoding.cure}"
                )
        if not self._needs_check:
            return
        if packet is not None and packet.is_keyframe:
            self._keyframes[ordinal] = packet
        for shown in came:
            expected = self._by_cpu(shown.ordinal)
            if expected is None:
                continue
            if not _is_same(self.planar(shown.frame), expected):
                raise BackendError(
                    f"{named} gives other pixels of {self._index.source} than the CPU; "
                    f"{self._decoding.cure}, or encode the file anew"
                )
            self._needs_check = False
            self._keyframes.clear()
            return

    def delivered(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame as converters take it: on the GPU, or in the CPU's pixel format."""
        return frame if self._decoding.keeps_on_device else self.planar(frame)

    def planar(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame on the CPU, in the pixel format that it decodes into: see `Planar`."""
        planar = self._planar.of(frame)
        self._counters.brought_down_bytes += _bytes_of(planar) if _is_on_gpu(frame) else 0
        return planar

    def failed(self, number: int) -> BackendError:
        """Return the error of a GPU that gave no frame `number`, where the CPU gives one."""
        info = self._index.info
        return BackendError(
            f"{self._decoding.in_words} gave no frame {number} of {self._index.source} "
            f"({info.codec} {info.profile}, {info.width}x{info.height}), which the CPU decodes: "
            "the GPU does not decode such video, or has no decoder or memory left; "
            f"{self._decoding.cure}, or read fewer files at a time"
        )

    def _by_cpu(self, ordinal: int) -> VideoFrame | None:
        """Return what the CPU makes of a frame; None unless it is whole without any other."""
        keyframe = self._keyframes.pop(ordinal, None)
        if keyframe is None:
            return None
        alone = frame_alone(new_codec(self._stream), keyframe)
        if alone is None or alone.is_corrupt or alone.pict_type != PictureType.I:
            return None
        return alone


def _codecs_of(decoding: DecoderConfig, index: StreamIndex) -> GpuCodecs:
    if decoding.backend == "pynvvideocodec":
        return PyNvVideoCodecs(decoding, index)
    return Nvdec(decoding, index)


def _is_on_gpu(frame: VideoFrame) -> bool:
    return frame.format.name == "cuda"


def _bytes_of(frame: VideoFrame) -> int:
    return sum(plane.buffer_size for plane in frame.planes)


def _is_same(found: VideoFrame, expected: VideoFrame) -> bool:
    """Return whether planar pictures of one format are equal."""
    sample_bytes = (expected.format.components[0].bits + 7) // 8
    return all(
        np.array_equal(
            rows_of(ours, ours.width * sample_bytes), rows_of(theirs, theirs.width * sample_bytes)
        )
        for ours, theirs in zip(found.planes, expected.planes, strict=True)
    )
