"""H.264 error reset: reopens the decoder after a damaged macroblock.

If the coefficients of a macroblock are truncated (CAVLC), FFmpeg's decoder keeps the coefficients
read so far and adds them to the next picture, even an IDR; it reports only the damaged picture. By
the standard no picture from an IDR on refers to earlier ones, and a decoder opened there outputs
the encoded picture. So after reported damage the codec is reopened at the next IDR, in every
decode; and a picture that is known as damaged, and to which no other refers, is not sent. A flush
does not clear the residue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from headrace.video.codec import FfmpegCodec, PacketResult, VideoPacket, new_codec
from headrace.video.hevc_lost_references import ffmpeg_codec

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
    """Reopens at the first IDR after reported damage. Not thread-safe.

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
