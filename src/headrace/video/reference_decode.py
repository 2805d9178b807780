"""The plain decode: what every way to a frame is held against."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

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
from headrace.video.container import open_container
from headrace.video.content_digest import digest_of
from headrace.video.ffmpeg_errors import at_the_door
from headrace.video.h264_error_reset import plain_codec, spoiling, told_of_packets
from headrace.video.packet_table import PALETTE, PacketTable
from headrace.video.source import Source
from headrace.video.timebase import NO_PTS

ENDS_EARLY = frozenset(["hevc", "vvc", "h261", "vp8"])
"""Codecs of which FFmpeg's decoders end a damaged picture early without a word. What is left of it
is what lay in memory: another picture when frames are held longer. They are decoded twice."""
HELD_FRAMES = 24
"""How many frames are held at the second time: more than a decoder itself does."""

B_IS_UNREFERENCED = frozenset(
    ["mpeg1video", "mpeg2video", "mpeg4", "vc1", "wmv3", "rv30", "rv40", "h263"]
)
"""Codecs in which no frame refers to a B-picture."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReferenceDecode:
    """Every frame that a plain decode of a whole stream gives, in presentation order."""

    ordinal: NDArray[np.int64]
    """int64 [frames]: the packet each came out of."""
    pts: NDArray[np.int64]
    """int64 [frames]: ticks; `NO_PTS` where there is none."""
    digest: NDArray[np.uint32]
    """uint32 [frames]: of the picture."""
    is_unreferenced: NDArray[np.bool_]
    """bool [frames]: a B-picture of a codec in which nothing refers to those."""
    reported: frozenset[int]
    """Ordinals of packets at which damage was reported."""
    doubled: tuple[int, ...]
    """Ordinals of packets that brought two frames; the first is told as of the packet before."""


def read_reference(source: Source, table: PacketTable, *, twice: bool) -> ReferenceDecode:
    """Decode a whole stream plainly, and take each picture's checksum.

    Twice, or of `ENDS_EARLY`: pictures that come out otherwise when frames are held longer are
    reported as damaged.
    Cost: decodes every frame, or twice; converts none. A damaged H.264 stream once more for each
    time that damage is met in frames that no other refers to.

    Raises:
        OpenError: it cannot be opened as video.
        ScanError: something below fails on it.
    """
    found = _read_spared(source, table, held=0)
    if not twice and table.info.codec not in ENDS_EARLY:
        return found
    again = _read_spared(source, table, held=HELD_FRAMES)
    if len(again.digest) != len(found.digest):
        return found
    unlike = found.ordinal[again.digest != found.digest].tolist()
    return replace(found, reported=found.reported | set(unlike))


def _read_spared(source: Source, table: PacketTable, *, held: int) -> ReferenceDecode:
    """Return what comes out, the damaged pictures left out that would spoil those behind them."""
    found = _read(source, table, held=held)
    left_out: frozenset[int] = frozenset()
    while spoilt := spoiling(table.info.codec, found.reported, table.is_droppable.item) - left_out:
        left_out |= spoilt
        spared = _read(source, table, held=held, left_out=left_out)
        digest = found.digest.copy()
        _, ours, theirs = np.intersect1d(found.ordinal, spared.ordinal, return_indices=True)
        digest[ours] = spared.digest[theirs]
        found = replace(found, digest=digest, reported=found.reported | spared.reported)
    return found


def _read(
    source: Source, table: PacketTable, *, held: int, left_out: Collection[int] = ()
) -> ReferenceDecode:
    """Return what comes out of all packets but those, while the last `held` frames are kept."""
    container, stream = open_container(source)
    kept_frames: deque[DecodedFrame] = deque(maxlen=held)
    rows: list[tuple[int, int]] = []
    digests: list[int] = []
    is_b: list[bool] = []
    reported: set[int] = set()
    with container, at_the_door(ScanError, source, "decode"):
        packets = packets_of(container, stream, source)
        first = next(packets)
        told = None if table.is_told_once else told_of_packets(stream, first, table)
        codec = plain_codec(prepare(stream.codec_context), told=told)
        numbered = enumerate(chain([first], packets))
        sent = ((ordinal, packet) for ordinal, packet in numbered if ordinal not in left_out)
        for shown in plain_decode(codec, sent, reported):
            kept_frames.append(shown)
            pts = shown.frame.pts
            shift = int(table.shift[shown.ordinal]) if 0 <= shown.ordinal < len(table) else 0
            rows.append((shown.ordinal, NO_PTS if pts is None else pts + shift))
            is_b.append(is_unreferenced(codec, shown))
            digests.append(digest_of(shown.frame))
    rows_found = np.array(rows, np.int64).reshape(-1, 2)
    doubled = _part_doubles(rows_found)
    _, first_of = np.unique(rows_found[:, 0], return_index=True)
    kept = np.sort(first_of)
    kept = kept[rows_found[kept, 0] >= 0]
    return ReferenceDecode(
        ordinal=rows_found[kept, 0],
        pts=rows_found[kept, 1],
        digest=np.array(digests, np.uint32)[kept],
        is_unreferenced=np.array(is_b, np.bool_)[kept],
        reported=frozenset(reported),
        doubled=doubled,
    )


def true_keyframes(source: Source, table: PacketTable, found: ReferenceDecode) -> NDArray[np.bool_]:
    """Return which keyframes give their picture to a decoder that begins there: bool [packets].

    For codecs whose keyframes only the container marks.
    Cost: reads the file, and decodes every keyframe once more.

    Raises:
        OpenError: it cannot be opened as video.
        ScanError: something below fails on it.
    """
    digest_at = dict(zip(found.ordinal.tolist(), found.digest.tolist(), strict=True))
    is_true = np.zeros(len(table), np.bool_)
    container, stream = open_container(source)
    with container, at_the_door(ScanError, source, "decode"):
        first: VideoPacket | None = None
        for ordinal, packet in enumerate(packets_of(container, stream, source)):
            if packet is None or ordinal >= len(table):
                break
            first = first or packet
            if table.is_keyframe[ordinal]:
                if first.has_sidedata(PALETTE) and not packet.has_sidedata(PALETTE):
                    packet.set_sidedata(first.get_sidedata(PALETTE))
                codec = FfmpegCodec(new_codec(stream))
                shown = plain_decode(codec, [(ordinal, packet), (ordinal, None)], set())
                is_true[ordinal] = any(
                    digest_of(frame) == digest_at.get(number) for number, frame in shown
                )
    return is_true


def _part_doubles(table: NDArray[np.int64]) -> tuple[int, ...]:
    """Tell the first of two frames of one packet as of the packet before, if that brings none.

    Changes the ordinals, column 0 of `table`, and returns those of the packets concerned.
    """
    found, counts = np.unique(table[:, 0], return_counts=True)
    brings = set(found.tolist())
    doubled = [
        ordinal for ordinal in found[counts == 2].tolist() if ordinal and ordinal - 1 not in brings
    ]
    for ordinal in doubled:
        table[np.flatnonzero(table[:, 0] == ordinal)[0], 0] = ordinal - 1
    return tuple(doubled)


def plain_decode(
    codec: FfmpegCodec, packets: Iterable[tuple[int, VideoPacket | None]], reported: set[int]
) -> Iterator[DecodedFrame]:
    """Yield what comes out of packets (ordinal, packet), and add to `reported` where damage is.

    A packet that is None drains the codec.
    """
    last = 0
    for ordinal, packet in packets:
        last = last if packet is None else ordinal
        decoded = codec.decode(last, packet)
        reported.update(decoded.reported)
        yield from decoded.shown


def is_unreferenced(codec: FfmpegCodec, shown: DecodedFrame) -> bool:
    """Return whether a frame is a B-picture that nothing refers to."""
    is_b = shown.frame.pict_type == PictureType.B
    return is_b and codec.context.codec.canonical_name in B_IS_UNREFERENCED
