"""Codecs of one stream: FFmpeg's on the CPU, or a GPU's by a subclass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from headrace.video.codec import (
    REOPENABLE_CODECS,
    Codec,
    DecodedFrame,
    VideoPacket,
    new_codec,
    prepare,
)
from headrace.video.h264_error_reset import RestartParameters, reference_codec
from headrace.video.hevc_lost_references import ffmpeg_codec
from headrace.video.stream_index import StreamIndex


class StreamCodecs:
    """Opens codecs of one stream on the CPU. Not thread-safe: one per decoder.

    A subclass for a GPU opens other codecs, and checks and copies their frames.
    """

    def __init__(self, index: StreamIndex) -> None:
        """Open no codec yet."""
        self._index = index
        self._reorder_depth = 0

    @property
    def is_reopenable(self) -> bool:
        """Whether a codec can be opened anywhere in the stream, not only at its start."""
        return self._index.info.codec in REOPENABLE_CODECS and not self._index.needs_one_codec

    def acquire_codec(
        self, stream: VideoStream, first: VideoPacket | None, doubled: Iterable[int] = ()
    ) -> Codec:
        """Return a codec without decoding state.

        Args:
            stream: The stream.
            first: First packet of the stream, which every codec receives.
            doubled: Indices of later packets that output two frames.

        Raises:
            BackendError: the GPU is missing, or has no codec for the stream; or this process was
                forked from one that uses CUDA.
        """
        if not self.is_reopenable:
            return ffmpeg_codec(prepare(stream.codec_context), doubled)
        context = new_codec(stream, depth=self._reorder_depth)
        restart = RestartParameters(stream, first, self._index.parameter_sets_before_packet)
        return reference_codec(context, doubled, restart)

    def release_codec(self, codec: Codec, *, is_working: bool) -> None:
        """Take back a codec from `acquire_codec`; a codec that does not work is never reused."""
        # Without the known depth a new codec would drop frames until it detects it.
        self._reorder_depth = max(self._reorder_depth, codec.reorder_depth)

    def check(
        self, packet_index: int, packet: VideoPacket | None, decoded: Sequence[DecodedFrame]
    ) -> None:
        """Check frames that were output after `packet`; frames of the CPU are right.

        Raises:
            BackendError: a GPU's frame is wrong.
        """

    def check_lost(self, frame_index: int, decodes_on_cpu: Callable[[int], bool]) -> None:
        """Check that a frame without output is damaged.

        Raises:
            BackendError: it is not: the CPU decodes it.
        """

    def to_deliverable(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame for the converters: on the GPU, or in the CPU decoder's pixel format."""
        return frame

    def to_planar(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame on the CPU, in the CPU decoder's pixel format."""
        return frame
