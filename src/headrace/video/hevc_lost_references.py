"""HEVC frames with lost references under FFmpeg 7 (PyAV 15).

FFmpeg 8 does not output them. FFmpeg 7 replaces a lost reference by grey, outputs the frame without
a flag, and only logs the loss; later frames refer to that frame. So its log is read: from a packet
with lost references on, frames are reported as damaged, until the frame of the next random access
point is output. Packets before the first random access point are dropped, as in FFmpeg 8.

PyAV enables the log for the whole process: from then on FFmpeg's errors elsewhere go to Python's
`logging` too, as loggers `libav.*`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import av
import av.logging
from av.video.codeccontext import VideoCodecContext

from headrace.video.codec import FfmpegCodec, PacketResult, VideoPacket

_OUTPUTS_LOST: Final = av.library_versions["libavcodec"] < (62,)
"""Whether this FFmpeg is older than 8."""
_LOST: Final = "Could not find ref with POC"
"""FFmpeg's message, in libavcodec/hevc/refs.c."""


def ffmpeg_codec(context: VideoCodecContext, doubled: Iterable[int] = ()) -> FfmpegCodec:
    """Return a codec for a prepared context: see `FfmpegCodec`."""
    if _OUTPUTS_LOST and context.codec.canonical_name == "hevc":
        return LossReportingCodec(context, doubled)
    return FfmpegCodec(context, doubled)


class LossReportingCodec(FfmpegCodec):
    """Reports HEVC frames with lost references. Not thread-safe."""

    def __init__(self, context: VideoCodecContext, doubled: Iterable[int] = ()) -> None:
        super().__init__(context, doubled)
        self._has_entry = False
        """Whether a random access point was sent."""
        self._first_lost: int | None = None
        """Index of the first packet with lost references; None without losses."""
        self._has_new_entry = False
        """Whether a random access point was sent after the last packet with lost references."""

    def flush(self) -> None:
        """See `Codec.flush`."""
        super().flush()
        self._has_entry, self._first_lost = False, None

    def decode(self, packet_index: int, packet: VideoPacket | None) -> PacketResult:
        """Decode one packet, or drain the codec with None: see `Codec.decode`."""
        if packet is not None and (not self._has_entry or self._first_lost is not None):
            if self.is_random_access(packet):
                self._has_entry = self._has_new_entry = True
            elif not self._has_entry:
                return PacketResult([], [])
        _enable_log()
        with av.logging.Capture() as logs:
            result = super().decode(packet_index, packet)
        if any(_LOST in message for _, _, message in logs):
            self._first_lost = packet_index if self._first_lost is None else self._first_lost
            self._has_new_entry = False
        for shown in result.shown:
            if self._first_lost is None or shown.packet_index < self._first_lost:
                continue
            if self._has_new_entry and shown.frame.key_frame:
                self._first_lost = None
            else:
                result.reported.append(shown.packet_index)
        return result


def _enable_log() -> None:
    """Let PyAV log every error, and keep Python from printing them."""
    if (level := av.logging.get_level()) is None or level < av.logging.ERROR:
        logging.getLogger("libav").addHandler(logging.NullHandler())
        av.logging.set_level(av.logging.ERROR)
    av.logging.set_skip_repeated(False)  # Another codec may have logged the same just before.
