"""HEVC frames whose references are lost, as FFmpeg 7 (PyAV 15) outputs them.

FFmpeg 8 withholds them. FFmpeg 7 puts grey in place of a lost reference, outputs the frame without
a flag, and only logs it; later frames refer to that one. So its log is read: from the packet on
whose references are lost, frames are reported as damaged, until that of the next random access
point is output. Packets before the first random access point are dropped, as FFmpeg 8 does.

PyAV logs only for the whole process: FFmpeg's errors elsewhere go to Python's `logging` from then
on, as loggers `libav.*`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import av
import av.logging
from av.video.codeccontext import VideoCodecContext

from headrace.video.codec import FfmpegCodec, PacketResult, VideoPacket

_OUTPUTS_THEM: Final = av.library_versions["libavcodec"] < (62,)
"""Whether this FFmpeg is older than 8."""
_LOST: Final = "Could not find ref with POC"
"""FFmpeg's message, in libavcodec/hevc/refs.c."""


def ffmpeg_codec(context: VideoCodecContext, doubled: Iterable[int] = ()) -> FfmpegCodec:
    """Return a codec for a prepared context: see `FfmpegCodec`."""
    if _OUTPUTS_THEM and context.codec.canonical_name == "hevc":
        return LossReportingCodec(context, doubled)
    return FfmpegCodec(context, doubled)


class LossReportingCodec(FfmpegCodec):
    """Reports HEVC frames that refer to lost ones. Not thread-safe."""

    def __init__(self, context: VideoCodecContext, doubled: Iterable[int] = ()) -> None:
        super().__init__(context, doubled)
        self._is_begun = False
        """Whether a random access point was sent."""
        self._lost: int | None = None
        """The first packet whose references are lost; None while all are there."""
        self._is_past = False
        """Whether a random access point was sent since the last of these packets."""

    def flush(self) -> None:
        """See `Codec.flush`."""
        super().flush()
        self._is_begun, self._lost = False, None

    def decode(self, packet_index: int, packet: VideoPacket | None) -> PacketResult:
        """Decode one packet, or drain the codec with None: see `Codec.decode`."""
        if packet is not None and (not self._is_begun or self._lost is not None):
            if self.is_random_access(packet):
                self._is_begun = self._is_past = True
            elif not self._is_begun:
                return PacketResult([], [])
        _switch_on_log()
        with av.logging.Capture() as logs:
            result = super().decode(packet_index, packet)
        if any(_LOST in message for _, _, message in logs):
            self._lost = packet_index if self._lost is None else self._lost
            self._is_past = False
        for shown in result.shown:
            if self._lost is None or shown.packet_index < self._lost:
                continue
            if self._is_past and shown.frame.key_frame:
                self._lost = None
            else:
                result.reported.append(shown.packet_index)
        return result


def _switch_on_log() -> None:
    """Have PyAV log errors, each time, and Python print none of them by itself."""
    if (level := av.logging.get_level()) is None or level < av.logging.ERROR:
        logging.getLogger("libav").addHandler(logging.NullHandler())
        av.logging.set_level(av.logging.ERROR)
    av.logging.set_skip_repeated(False)  # Another codec may have lost the same one just before.
