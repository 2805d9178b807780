"""Reference decode: a linear FFmpeg decode, which defines the right frames."""

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
from headrace.video.ffmpeg_errors import translate_errors
from headrace.video.h264_error_reset import RestartParameters, droppable_damage, reference_codec
from headrace.video.packet_table import PALETTE, PacketTable
from headrace.video.pyav_version import copy_side_data
from headrace.video.source import Source
from headrace.video.timebase import NO_PTS

ENDS_EARLY = frozenset(["hevc", "vvc", "h261", "vp8"])
"""Codecs whose FFmpeg decoder ends a damaged frame early without a report. The rest of the frame is
old memory, which changes when frames are held longer, so these codecs are decoded twice."""
HELD_FRAMES = 24
"""Frames held in the second decode: more than a decoder itself holds."""

B_IS_UNREFERENCED = frozenset(
    ["mpeg1video", "mpeg2video", "mpeg4", "vc1", "wmv3", "rv30", "rv40", "h263"]
)
"""Codecs in which no frame refers to a B-frame."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReferenceDecode:
    """Every frame of a reference decode of a whole stream, in presentation order."""

    packet_index: NDArray[np.int64]
    """int64 [frames]: the packet of each frame."""
    pts: NDArray[np.int64]
    """int64 [frames]: ticks; `NO_PTS` where there is none."""
    digest: NDArray[np.uint32]
    """uint32 [frames]: digest of the frame."""
    is_unreferenced: NDArray[np.bool_]
    """bool [frames]: a B-frame of a codec in which nothing refers to B-frames."""
    reported: frozenset[int]
    """Indices of packets with reported damage."""
    doubled: tuple[int, ...]
    """Indices of packets that output two frames; the first is assigned to the packet before."""


def read_reference(source: Source, table: PacketTable, *, twice: bool) -> ReferenceDecode:
    """Decode a whole stream by reference, and compute each frame's digest.

    With `twice`, or for `ENDS_EARLY`, frames that change when frames are held longer are reported
    as damaged.
    Cost: decodes every frame, once or twice; converts none. Damaged H.264 is decoded once more each
    time damage appears in disposable frames.

    Raises:
        OpenError: it cannot be opened as video.
        ScanError: FFmpeg fails on it.
    """
    found = _read_without_damage(source, table, held=0)
    if not twice and table.info.codec not in ENDS_EARLY:
        return found
    again = _read_without_damage(source, table, held=HELD_FRAMES)
    if len(again.digest) != len(found.digest):
        return found
    unlike = found.packet_index[again.digest != found.digest].tolist()
    return replace(found, reported=found.reported | set(unlike))


def _read_without_damage(source: Source, table: PacketTable, *, held: int) -> ReferenceDecode:
    """Return the output without damaged frames that would spoil later ones."""
    found = _read(source, table, held=held)
    skipped: frozenset[int] = frozenset()
    while (
        spoilt := droppable_damage(table.info.codec, found.reported, table.is_disposable.item)
        - skipped
    ):
        skipped |= spoilt
        again = _read(source, table, held=held, skipped=skipped)
        digest = found.digest.copy()
        _, rows, rows_again = np.intersect1d(
            found.packet_index, again.packet_index, return_indices=True
        )
        digest[rows] = again.digest[rows_again]
        found = replace(found, digest=digest, reported=found.reported | again.reported)
    return found


def _read(
    source: Source, table: PacketTable, *, held: int, skipped: Collection[int] = ()
) -> ReferenceDecode:
    """Return the output of all packets but the skipped ones, holding the last `held` frames."""
    container, stream = open_container(source)
    held_frames: deque[DecodedFrame] = deque(maxlen=held)
    rows: list[tuple[int, int, int, bool]] = []
    reported: set[int] = set()
    with container, translate_errors(ScanError, source, "decode"):
        packets = packets_of(container, stream, source)
        first = next(packets)
        restart = RestartParameters(stream, first, table.parameter_sets_before_packet)
        codec = reference_codec(prepare(stream.codec_context), (), restart)
        numbered = enumerate(chain([first], packets))
        sent = (
            (packet_index, packet)
            for packet_index, packet in numbered
            if packet_index not in skipped
        )
        for shown in decode_packets(codec, sent, reported):
            held_frames.append(shown)
            packet_index, pts = shown.packet_index, shown.frame.pts
            is_known = 0 <= packet_index < len(table)
            shift = int(table.clock_shift[packet_index]) if is_known else 0
            ticks = NO_PTS if pts is None else pts + shift
            digest = digest_of(shown.frame)
            rows.append((packet_index, ticks, digest, is_unreferenced(codec, shown)))
    found = np.array(rows, np.int64).reshape(-1, 4)
    doubled = _split_doubled(found)
    _, first_of = np.unique(found[:, 0], return_index=True)
    found = found[np.sort(first_of)]
    columns = found[found[:, 0] >= 0].T.copy()
    return ReferenceDecode(
        packet_index=columns[0],
        pts=columns[1],
        digest=columns[2].astype(np.uint32),
        is_unreferenced=columns[3].astype(np.bool_),
        reported=frozenset(reported),
        doubled=doubled,
    )


def verify_keyframes(
    source: Source, table: PacketTable, found: ReferenceDecode
) -> NDArray[np.bool_]:
    """Return which keyframes decode to their own frame from a new decoder: bool [packets].

    For codecs whose keyframes only the container flags.
    Cost: reads the file, and decodes every keyframe again.

    Raises:
        OpenError: it cannot be opened as video.
        ScanError: FFmpeg fails on it.
    """
    digest_at = dict(zip(found.packet_index.tolist(), found.digest.tolist(), strict=True))
    is_true = np.zeros(len(table), np.bool_)
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
                is_true[packet_index] = any(
                    digest_of(frame) == digest_at.get(packet_number)
                    for packet_number, frame in shown
                )
    return is_true


def _split_doubled(table: NDArray[np.int64]) -> tuple[int, ...]:
    """Assign the first of two frames of a packet to the packet before, if that outputs none.

    Changes the packet indices, column 0 of `table`, and returns the affected packets.
    """
    found, counts = np.unique(table[:, 0], return_counts=True)
    brings = set(found.tolist())
    doubled = [
        packet_index
        for packet_index in found[counts == 2].tolist()
        if packet_index and packet_index - 1 not in brings
    ]
    for packet_index in doubled:
        table[np.flatnonzero(table[:, 0] == packet_index)[0], 0] = packet_index - 1
    return tuple(doubled)


def decode_packets(
    codec: FfmpegCodec, packets: Iterable[tuple[int, VideoPacket | None]], reported: set[int]
) -> Iterator[DecodedFrame]:
    """Yield the output of (packet index, packet) pairs, and add packets with damage to `reported`.

    None as a packet drains the codec.
    """
    last = 0
    for packet_index, packet in packets:
        last = last if packet is None else packet_index
        decoded = codec.decode(last, packet)
        reported.update(decoded.reported)
        yield from decoded.shown


def is_unreferenced(codec: FfmpegCodec, shown: DecodedFrame) -> bool:
    """Return whether a frame is a B-frame that nothing refers to."""
    is_b = shown.frame.pict_type == PictureType.B
    return is_b and codec.context.codec.canonical_name in B_IS_UNREFERENCED
