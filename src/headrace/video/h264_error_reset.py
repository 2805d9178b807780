"""What FFmpeg's H.264 decoder leaves behind of a broken macroblock, and how none of it is shown.

Where the coefficients of a macroblock break off (CAVLC), those that were read stay in the decoder
and are added to the picture that is decoded next, an IDR included: FFmpeg reports the broken
picture, and nothing of the next. By the standard nothing behind an IDR refers to what is before it,
and a codec that begins there gives the picture that was encoded. So behind reported damage a codec
begins anew at the next IDR, in every decode; and a damaged picture that no other refers to is left
out once it is known, for the sake of the one behind it. A flush does not clear what is left over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from headrace.video import nal
from headrace.video.codec import FfmpegCodec, PacketResult, VideoPacket, new_codec
from headrace.video.packet_table import PacketTable
from headrace.video.random_access import RandomAccess, trust

LEAVES_OVER = frozenset(["h264"])
"""Codecs whose decoder adds what is left of a broken picture to the next."""


class RestartParameters(NamedTuple):
    """What a codec is told that begins in the middle of a stream."""

    stream: VideoStream
    first: VideoPacket | None
    """The first packet of the stream."""
    before: Callable[[int], bytes | None]
    """Ordinal → the parameter sets in force before that packet; None where that is not known."""


def told_of_packets(
    stream: VideoStream, first: VideoPacket | None, table: PacketTable
) -> RestartParameters:
    """Return what a scan found to be told before each packet."""

    def before(ordinal: int) -> bytes | None:
        if ordinal >= len(table):
            return None
        begin, end = table.told_range[ordinal]
        return table.told[begin:end]

    return RestartParameters(stream, first, before)


def plain_codec(
    context: VideoCodecContext, doubled: Iterable[int] = (), told: RestartParameters | None = None
) -> FfmpegCodec:
    """Return a decoder for a context that is prepared; without `told` it never begins anew."""
    if told is not None and context.codec.canonical_name in LEAVES_OVER:
        return ResettingCodec(context, doubled, told)
    return FfmpegCodec(context, doubled)


def spoiling(
    codec: str, reported: Iterable[int], is_droppable: Callable[[int], bool]
) -> frozenset[int]:
    """Return the ordinals of damaged packets that are to be left out, once they are known."""
    if codec not in LEAVES_OVER:
        return frozenset()
    return frozenset(ordinal for ordinal in reported if is_droppable(ordinal))


class ResettingCodec(FfmpegCodec):
    """Begins anew at the first IDR behind reported damage. Not thread-safe.

    H.264 reports a damaged picture when it comes out, which may be after that IDR was sent. So the
    packets from an IDR on are kept until its picture comes, and are sent again where need be.
    """

    def __init__(
        self, context: VideoCodecContext, doubled: Iterable[int], told: RestartParameters
    ) -> None:
        super().__init__(context, doubled)
        self._told = told
        self._nal_length_size = nal.length_size("h264", context.extradata)
        self._entry = 0
        """Ordinal of the last IDR."""
        self._kept: list[tuple[int, VideoPacket]] | None = None
        """The packets from it on; None once a picture of theirs came."""
        self._is_soiled = False
        """Whether damage was reported since the codec was made."""

    def decode(self, ordinal: int, packet: VideoPacket | None) -> PacketResult:
        """Decode one packet, or with None what the codec still holds: see `FfmpegCodec.decode`."""
        held: PacketResult | None = None
        if packet is not None and packet.is_keyframe and self._is_idr(packet):
            if self._is_soiled:
                held = self._begin_anew(ordinal)
            self._entry, self._kept = ordinal, []
        if self._kept is not None and packet is not None:
            self._kept.append((ordinal, packet))
        found = super().decode(ordinal, packet)
        if held is not None:
            self._add(held, found)
            found = held
        if found.reported:
            found = self._wiped(found, is_end=packet is None)
        if self._kept and any(shown.ordinal >= self._entry for shown in found.shown):
            self._kept = None
        return found

    def _is_idr(self, packet: VideoPacket) -> bool:
        found = trust("h264", memoryview(packet), self._nal_length_size, is_intra_only=False)
        return found is RandomAccess.CERTAIN

    def _wiped(self, found: PacketResult, *, is_end: bool) -> PacketResult:
        """Return what comes of all packets that were sent, in spite of damage before the IDR."""
        entry, kept = self._entry, self._kept
        self._is_soiled = True
        if not kept or min(found.reported) >= entry or self._told.before(entry) is None:
            return found
        self._add(found, self._begin_anew(entry))
        found = PacketResult(
            [shown for shown in found.shown if shown.ordinal < entry],
            [bad for bad in found.reported if bad < entry],
        )
        for ordinal, packet in kept:
            self._add(found, super().decode(ordinal, packet))
        if is_end:
            self._add(found, super().decode(kept[-1][0], None))
        self._is_soiled = max(found.reported) >= entry
        return found

    def _begin_anew(self, ordinal: int) -> PacketResult:
        """Make the codec anew before a packet; return what the old one still held."""
        sets = self._told.before(ordinal)
        if sets is None:
            return PacketResult([], [])
        held = super().decode(ordinal, None)
        depth = self.context.reorder_depth
        self.context = new_codec(self._told.stream)
        if depth > self.context.reorder_depth:
            self.context.reorder_depth = depth  # as it has learnt on the way
        self.prime(self._told.first, sets)
        self._is_soiled = False
        return held

    @staticmethod
    def _add(found: PacketResult, more: PacketResult) -> None:
        found.shown.extend(more.shown)
        found.reported.extend(more.reported)
