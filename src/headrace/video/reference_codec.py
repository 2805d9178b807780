"""Reference codecs: FFmpeg's decoders, where damage never reaches a frame that is not reported.

FFmpeg's H.264 decoder adds the residue of a damaged picture to the next one (`ResettingCodec`), and
its HEVC decoder before FFmpeg 8 outputs frames with lost references (`LossReportingCodec`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import av
import av.logging
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from headrace.video.codec import FfmpegCodec, PacketResult, VideoPacket, new_codec

CODECS_WITH_RESIDUE = frozenset(["h264"])
"""Codecs whose decoder adds the residue of a damaged picture to the next picture."""


class RestartParameters(NamedTuple):
    """Parameters for a codec that starts within a stream."""

    stream: VideoStream
    first: VideoPacket | None
    """The first packet of the stream."""
    before: Callable[[int], bytes | None]
    """Packet index -> parameter sets in force before that packet; None if not known."""


def reference_codec(
    context: VideoCodecContext, doubled: Iterable[int], restart: RestartParameters
) -> FfmpegCodec:
    """Return a codec for reference decodes with a prepared context."""
    if context.codec.canonical_name in CODECS_WITH_RESIDUE:
        return ResettingCodec(context, doubled, restart)
    return ffmpeg_codec(context, doubled)


def droppable_damage(
    codec: str, reported: Iterable[int], is_disposable: Callable[[int], bool]
) -> frozenset[int]:
    """Return the indices of damaged packets that must not be sent again."""
    if codec not in CODECS_WITH_RESIDUE:
        return frozenset()
    return frozenset(packet_index for packet_index in reported if is_disposable(packet_index))


class ResettingCodec(FfmpegCodec):
    """H.264 codec that is reopened at the first IDR after reported damage. Not thread-safe.

    If the coefficients of a macroblock are truncated (CAVLC), FFmpeg's decoder keeps the
    coefficients read so far and adds them to the next picture, even an IDR; it reports only the
    damaged picture. By the standard no picture from an IDR on refers to earlier ones, and a decoder
    opened there outputs the encoded picture. So after reported damage the codec is reopened at the
    next IDR, in every decode; and a picture that is known as damaged, and to which no other refers,
    is not sent. A flush does not clear the residue.

    The decoder reports a damaged picture on output, possibly after the next IDR was sent. So
    packets from an IDR on are kept until its picture is output, and sent again if needed.
    """

    def __init__(
        self, context: VideoCodecContext, doubled: Iterable[int], restart: RestartParameters
    ) -> None:
        super().__init__(context, doubled)
        self._restart = restart
        self._entry = 0
        """Index of the last IDR's packet."""
        self._since_idr: list[tuple[int, VideoPacket]] | None = None
        """Packets from that IDR on; None once a picture of them was output."""
        self._has_damage = False
        """Whether damage was reported since the codec was opened."""

    def decode(self, packet_index: int, packet: VideoPacket | None) -> PacketResult:
        """Decode one packet, or drain the codec with None: see `FfmpegCodec.decode`."""
        pending: PacketResult | None = None
        if packet is not None and packet.is_keyframe and self.is_random_access(packet):
            if self._has_damage:
                pending = self._reopen(packet_index)
            self._entry, self._since_idr = packet_index, []
        if self._since_idr is not None and packet is not None:
            self._since_idr.append((packet_index, packet))
        result = super().decode(packet_index, packet)
        if pending is not None:
            self._extend(pending, result)
            result = pending
        if result.reported:
            result = self._decode_again(result, is_end=packet is None)
        if self._since_idr and any(shown.packet_index >= self._entry for shown in result.shown):
            self._since_idr = None
        return result

    def _decode_again(self, result: PacketResult, *, is_end: bool) -> PacketResult:
        """Return the output of all packets since the IDR, after damage before it."""
        entry, packets = self._entry, self._since_idr
        self._has_damage = True
        if not packets or min(result.reported) >= entry or self._restart.before(entry) is None:
            return result
        self._extend(result, self._reopen(entry))
        result = PacketResult(
            [shown for shown in result.shown if shown.packet_index < entry],
            [bad for bad in result.reported if bad < entry],
        )
        for packet_index, packet in packets:
            self._extend(result, super().decode(packet_index, packet))
        if is_end:
            self._extend(result, super().decode(packets[-1][0], None))
        self._has_damage = max(result.reported) >= entry
        return result

    def _reopen(self, packet_index: int) -> PacketResult:
        """Reopen the codec before a packet; return the old codec's remaining output."""
        sets = self._restart.before(packet_index)
        if sets is None:
            return PacketResult([], [])
        pending = super().decode(packet_index, None)
        self.context = new_codec(self._restart.stream, depth=self.reorder_depth)
        self.send_parameter_sets(self._restart.first, sets)
        self._has_damage = False
        return pending

    @staticmethod
    def _extend(result: PacketResult, more: PacketResult) -> None:
        result.shown.extend(more.shown)
        result.reported.extend(more.reported)


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
    """HEVC codec of FFmpeg 7 (PyAV 15) that reports frames with lost references. Not thread-safe.

    FFmpeg 8 does not output them. FFmpeg 7 replaces a lost reference by grey, outputs the frame
    without a flag, and only logs the loss; later frames refer to that frame. So its log is read:
    from a packet with lost references on, frames are reported as damaged, until the frame of the
    next random access point is output. Packets before the first random access point are dropped, as
    in FFmpeg 8.

    PyAV enables the log for the whole process: from then on FFmpeg's errors elsewhere go to
    Python's `logging` too, as loggers `libav.*`.
    """

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
