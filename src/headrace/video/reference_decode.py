"""Reference decode: a linear decode by FFmpeg, which defines the right frames and their status."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np
from av.video.frame import PictureType
from numpy.typing import NDArray

from headrace.errors import ScanError
from headrace.video.codec import (
    DecodedFrame,
    FfmpegCodec,
    VideoPacket,
    new_codec,
    packets_of,
    prepare,
)
from headrace.video.container import open_container, translate_errors
from headrace.video.content_digest import digest_of
from headrace.video.packet_table import PALETTE, PacketTable
from headrace.video.pyav_version import copy_side_data
from headrace.video.reference_codec import RestartParameters, droppable_damage, reference_codec
from headrace.video.source import Source
from headrace.video.timebase import NO_PTS

ENDS_EARLY = frozenset(["hevc", "vvc", "h261", "vp8"])
"""Codecs whose FFmpeg decoder ends a damaged frame early without a report. The rest of the frame is
old memory, which changes if frames are held longer, so these codecs are decoded twice."""
HELD_FRAMES = 24
"""Frames held in the second decode: more than a decoder holds."""

B_IS_UNREFERENCED = frozenset(
    ["mpeg1video", "mpeg2video", "mpeg4", "vc1", "wmv3", "rv30", "rv40", "h263"]
)
"""Codecs in which no frame refers to a B-frame."""


class ReferenceFrame(NamedTuple):
    """A frame of a reference decode, without its pixels."""

    packet_index: int
    pts: int
    """Presentation time in ticks; `NO_PTS` if unknown."""
    digest: int
    is_unreferenced: bool
    """Whether it is a B-frame of a codec in `B_IS_UNREFERENCED`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReferenceResult:
    """Output of a reference decode."""

    frames: dict[int, ReferenceFrame]
    """Packet index -> its first frame, in output order."""
    reported: set[int]
    """Indices of packets with reported damage."""
    doubled: tuple[int, ...] = ()
    """Indices of packets that output two frames; the first frame is assigned to the packet
    before."""

    def damage(self, num_packets: int, num_shown: int) -> tuple[str, ...]:
        """Describe the damage in a stream, of whose packets `num_shown` are to be shown."""
        missing = num_shown - len(self.frames)
        reported = f"damage is reported at {len(self.reported)} of {num_packets} packets"
        withheld = f"{missing} of {num_shown} packets output no frame"
        return (reported,) * bool(self.reported) + (withheld,) * (missing > 0)


def reference_frames(
    frames: Iterable[DecodedFrame], codec: str, *, held: int
) -> list[ReferenceFrame]:
    """Return all frames without their pixels, while holding the last `held` frames."""
    held_frames: deque[DecodedFrame] = deque(maxlen=held)
    rows = []
    for shown in frames:
        held_frames.append(shown)
        packet_index, frame = shown
        ticks = NO_PTS if frame.pts is None else frame.pts
        is_unreferenced = frame.pict_type == PictureType.B and codec in B_IS_UNREFERENCED
        rows.append(ReferenceFrame(packet_index, ticks, digest_of(frame), is_unreferenced))
    return rows


def first_frames(frames: Iterable[ReferenceFrame]) -> dict[int, ReferenceFrame]:
    """Return the first frame of each packet, by packet index."""
    by_packet: dict[int, ReferenceFrame] = {}
    for frame in frames:
        by_packet.setdefault(frame.packet_index, frame)
    return by_packet


DecodePass: TypeAlias = Callable[[Collection[int], int], ReferenceResult]
"""(indices of packets to skip, number of frames to hold) -> output of the other packets."""


def decode_around_damage(
    decode: DecodePass, codec: str, is_disposable: Callable[[int], bool], *, twice: bool = False
) -> ReferenceResult:
    """Return the output of one or more passes, without damaged packets that spoil later frames.

    With `twice`, or for `ENDS_EARLY`, frames that change if frames are held longer are reported as
    damaged.
    Cost: one pass, or two. Damaged H.264 takes another pass each time damage appears in disposable
    frames.
    """
    result = _without_damage(decode, codec, is_disposable, held=0)
    if twice or codec in ENDS_EARLY:
        again = _without_damage(decode, codec, is_disposable, held=HELD_FRAMES)
        result.reported.update(
            packet_index
            for packet_index, frame in again.frames.items()
            if result.frames.get(packet_index, frame).digest != frame.digest
        )
    return result


def _without_damage(
    decode: DecodePass, codec: str, is_disposable: Callable[[int], bool], *, held: int
) -> ReferenceResult:
    result = decode((), held)
    skipped: frozenset[int] = frozenset()
    while damaged := droppable_damage(codec, result.reported, is_disposable) - skipped:
        skipped |= damaged
        again = decode(skipped, held)
        result.frames.update(again.frames)
        result.reported.update(again.reported)
    return result


def read_reference(source: Source, table: PacketTable, *, twice: bool) -> ReferenceResult:
    """Decode a whole stream by reference: see `decode_around_damage`.

    The result has only frames of the first pass, in its order.

    Raises:
        OpenError: it cannot be opened as video.
        ScanError: FFmpeg fails on it.
    """
    packets: list[int] = []

    def decode(skipped: Collection[int], held: int) -> ReferenceResult:
        result = _read(source, table, skipped, held)
        packets.extend(() if packets else result.frames)
        return result

    result = decode_around_damage(decode, table.info.codec, table.is_disposable.item, twice=twice)
    return replace(result, frames={index: result.frames[index] for index in packets})


def _read(
    source: Source, table: PacketTable, skipped: Collection[int], held: int
) -> ReferenceResult:
    """Return the output of all packets but the skipped ones, holding the last `held` frames."""
    container, stream = open_container(source)
    reported: set[int] = set()
    with container, translate_errors(ScanError, source, "decode"):
        packets = packets_of(container, stream, source)
        first = next(packets)
        restart = RestartParameters(stream, first, table.parameter_sets_before_packet)
        codec = reference_codec(prepare(stream.codec_context), (), restart)
        sent = (
            (packet_index, packet)
            for packet_index, packet in enumerate(chain([first], packets))
            if packet_index not in skipped
        )
        shown = decode_packets(codec, sent, reported)
        frames = [
            _on_one_clock(frame, table)
            for frame in reference_frames(shown, table.info.codec, held=held)
        ]
    doubled = _split_doubled(frames)
    by_packet = first_frames(frame for frame in frames if frame.packet_index >= 0)
    return ReferenceResult(frames=by_packet, reported=reported, doubled=doubled)


def _on_one_clock(frame: ReferenceFrame, table: PacketTable) -> ReferenceFrame:
    if frame.pts == NO_PTS or not 0 <= frame.packet_index < len(table):
        return frame
    return frame._replace(pts=frame.pts + int(table.clock_shift[frame.packet_index]))


def verify_keyframes(
    source: Source, table: PacketTable, reference: ReferenceResult
) -> NDArray[np.bool_]:
    """Return which keyframes a new decoder decodes to their reference frame: bool [packets].

    For codecs whose keyframes only the container flags.
    Cost: reads the file, and decodes every keyframe again.

    Raises:
        OpenError: it cannot be opened as video.
        ScanError: FFmpeg fails on it.
    """
    is_keyframe = np.zeros(len(table), np.bool_)
    container, stream = open_container(source)
    with container, translate_errors(ScanError, source, "decode"):
        first: VideoPacket | None = None
        for packet_index, packet in enumerate(packets_of(container, stream, source)):
            if packet is None or packet_index >= len(table):
                break
            first = first or packet
            if table.is_keyframe[packet_index]:
                copy_side_data(first, PALETTE, packet)
                codec = FfmpegCodec(new_codec(stream))
                shown = decode_packets(codec, [(packet_index, packet), (packet_index, None)], set())
                is_keyframe[packet_index] = any(
                    index in reference.frames and digest_of(frame) == reference.frames[index].digest
                    for index, frame in shown
                )
    return is_keyframe


def _split_doubled(frames: list[ReferenceFrame]) -> tuple[int, ...]:
    """Assign the first of two frames of a packet to the packet before, if that has no frame.

    Changes `frames`; returns the indices of the packets with two frames.
    """
    counts = Counter(frame.packet_index for frame in frames)
    doubled = sorted(
        packet_index
        for packet_index, count in counts.items()
        if count == 2 and packet_index > 0 and packet_index - 1 not in counts
    )
    remaining = set(doubled)
    for position, frame in enumerate(frames):
        if frame.packet_index in remaining:
            remaining.discard(frame.packet_index)
            frames[position] = frame._replace(packet_index=frame.packet_index - 1)
    return tuple(doubled)


def decode_packets(
    codec: FfmpegCodec, packets: Iterable[tuple[int, VideoPacket | None]], reported: set[int]
) -> Iterator[DecodedFrame]:
    """Yield the output of (packet index, packet) pairs; add damaged packets to `reported`.

    A packet of None drains the codec.
    """
    last = 0
    for packet_index, packet in packets:
        last = last if packet is None else packet_index
        decoded = codec.decode(last, packet)
        reported.update(decoded.reported)
        yield from decoded.shown


_UNKNOWN, _GOOD, _DAMAGED = range(3)
VERDICT = np.dtype([("state", "u1"), ("digest", "<u4")])
"""Record of one frame."""


class VerifiedSpan(NamedTuple):
    """Undamaged part of a GOP, by a reference decode."""

    stop: int
    """Index after its last frame."""
    is_all: bool = False
    """Whether damage follows, so that the span cannot grow."""


class FrameStatus:
    """Status per frame by reference decodes: good with its digest, damaged, or unknown.

    A reference decode starts at a guaranteed entry or at the stream's start, with FFmpeg's
    defaults. Its frames without reported damage are right by definition. Frames with reported
    damage, and frames that refer to them, are damaged.

    Stored with the index. Grows while files are read. Threads that verify at the same time may
    repeat work, but never see a partial update. Takes 5 bytes per frame once any status is known.
    """

    def __init__(self, num_frames: int, table: NDArray[np.void] | None = None) -> None:
        self._num_frames = num_frames
        self.table = table
        """Known status, [frames] of `VERDICT`; None: all unknown."""
        self.verified: dict[tuple[str, int], VerifiedSpan] = {}
        """(device, GOP) -> its verified span in this process, for backends that report no damage.
        Not stored."""

    def knows(self, frame_index: int) -> bool:
        """Return whether the status of a frame is known."""
        return self.table is not None and self.table["state"][frame_index] != _UNKNOWN

    def is_damaged(self, frame_index: int) -> bool:
        """Return whether a reference decode reports damage at a frame."""
        return self.table is not None and self.table["state"][frame_index] == _DAMAGED

    def differs(self, frame_index: int, digest: int) -> bool:
        """Return whether a digest differs from the reference decode's."""
        return self.table is not None and int(self.table["digest"][frame_index]) != digest

    def note(self, first: int, stop: int, good: Mapping[int, int]) -> None:
        """Set the status of frames [first, stop) after a reference decode.

        Args:
            first: Index of the first frame.
            stop: Index after the last.
            good: Frame index -> digest, of the undamaged frames.
        """
        table = np.zeros(self._num_frames, VERDICT) if self.table is None else self.table.copy()
        table["state"][first:stop] = _DAMAGED
        for frame_index, digest in good.items():
            table[frame_index] = _GOOD, digest
        self.table = table  # atomic for reading threads
