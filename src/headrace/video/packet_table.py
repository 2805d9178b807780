"""Reading every packet of a stream once; of its frames only the first is decoded."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from typing import Final, cast

import av
import numpy as np
from av.container import InputContainer
from av.sidedata.sidedata import SideData, Type
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.errors import ScanError
from headrace.video import nal
from headrace.video.codec import first_frame, frame_alone, prepare
from headrace.video.container import open_container
from headrace.video.ffmpeg_errors import at_the_door, describe
from headrace.video.frame_format import Orientation
from headrace.video.monotonic_pts import clock_shifts
from headrace.video.packet_flags import DROPPABLE, HIDDEN, KEYFRAME, MAY_TELL, glance_of
from headrace.video.random_access import trust
from headrace.video.source import Source
from headrace.video.timebase import NO_PTS

_MOST_STATES = 256
"""Changes of parameter sets that are kept apart; a stream with more has one codec for all of it."""
_SIGNED_BYTES = 256
"""At the beginning of a packet; with its length they tell it from its neighbours."""

_TURN: Final = 1 << 33
"""Ticks of a clock of MPEG streams, by ISO/IEC 13818-1, 2.4.3.7."""

PALETTE: Final = "palette"
"""PyAV's name of the colours that a container hands over beside a packet."""


@dataclass(frozen=True, kw_only=True)
class StreamInfo:
    """What a stream says of itself, checked on its first frame."""

    codec: str
    """FFmpeg's name of the codec: `h264`, `hevc`, ..."""
    profile: str
    """The codec's profile, or empty."""
    pixel_format: str
    """FFmpeg's name of the stored pixel format, such as `yuv420p10le`."""
    height: int
    """Stored rows, before the frame is turned upright."""
    width: int
    """Stored columns, before the frame is turned upright."""
    orientation: Orientation
    """How the stored frame becomes the upright one."""
    time_base: Fraction
    """Seconds per tick."""
    nominal_rate: Fraction | None
    """Frames per second as the container announces it; not measured."""
    reorders: bool
    """Whether decoding order may differ from presentation order (B-frames)."""
    is_interlaced: bool
    """Whether the stream says it is, or may be, coded in fields."""
    container: str
    """FFmpeg's name of the container format."""

    @property
    def upright_size(self) -> tuple[int, int]:
        """(height, width) of an upright frame."""
        return self.orientation.upright_size((self.height, self.width))


@dataclass(frozen=True, kw_only=True, eq=False)
class PacketTable:
    """Every packet of one stream, in decoding order: one row each."""

    info: StreamInfo
    pts: NDArray[np.int64]
    """Ticks; `NO_PTS` where the container gives none."""
    dts: NDArray[np.int64]
    """Ticks; `NO_PTS` where the container gives none."""
    shift: NDArray[np.int64]
    """Ticks to add to both, so that they go on where the clock of the file starts again."""
    duration: NDArray[np.int64]
    """Ticks; 0 where the container gives none."""
    is_keyframe: NDArray[np.bool_]
    """Whether decoding can start here: FFmpeg's flag, or the picture's own type."""
    is_shown: NDArray[np.bool_]
    """False for packets an edit list hides, and for frames coded as never shown."""
    is_droppable: NDArray[np.bool_]
    """Whether no other frame refers to this one, by the packet's own header."""
    signature: NDArray[np.int64]
    """See `signature_of`."""
    position: NDArray[np.int64]
    """Byte of the file where the packet begins, as the container tells it; -1 where it does not."""
    trust: NDArray[np.uint8]
    """`Trust` in the packet of a keyframe; 0 for others, and where a palette changes on the way."""
    told: bytes
    """Parameter sets in force somewhere behind the first packet and not told there, end to end."""
    told_range: NDArray[np.int64]
    """int64 [packets, 2]: [first, stop) of the bytes of `told` in force before each packet."""
    is_told_once: bool
    """Whether some packet brings what later ones need, and a codec made anew cannot be told."""
    is_set_up_anew: bool
    """Whether a keyframe tells the decoder other things than the first: another size, perhaps."""
    reorder_depth: int
    """Frames that the decoder, by what FFmpeg knows when it opens the file, will hold back."""
    problems: tuple[str, ...]
    """What is wrong with the file, in words."""

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def shown_pts(self) -> NDArray[np.int64]:
        """int64 [packets]: ticks of one clock; `NO_PTS` where the container gives none."""
        return np.where(self.pts == NO_PTS, NO_PTS, self.pts + self.shift)


_ROW = struct.Struct("=8q")
"""(pts, dts, duration, position, signature, flags, trust, what was in force before) of a packet.
Packed at once: as tuples they took twice the time."""
_DISCARDED = 16
"""Beside the flags of `glance`: an edit list hides the packet."""


@dataclass(eq=False)
class _Found:
    rows: bytearray = field(default_factory=bytearray)
    """A `_ROW` for each packet."""
    count: int = 0
    """Packets so far."""
    is_told_once: bool = False
    has_new_palette: bool = False
    """Whether a packet behind the first brings colours that later ones need."""
    setups: set[bytes] = field(default_factory=set)
    sets: dict[bytes, None] = field(default_factory=dict)
    """Parameter sets, in the order in which each was last told."""
    states: dict[tuple[bytes, ...], int] = field(default_factory=dict)
    """What was in force, by number; 0 after the first packet."""
    state: int = 0
    problems: list[str] = field(default_factory=list)


def read_packets(source: Source) -> PacketTable:
    """Read every packet of `source` once; of its frames only the first is decoded.

    The first frame is needed because only a frame shows the display matrix and the true size.
    Cost: reads the whole file, some 10 ms for a clip of 10 s.

    Raises:
        OpenError: it cannot be opened as video.
        ScanError: it holds no packet, or no frame can be decoded from it.
    """
    container, stream = open_container(source)
    with container, at_the_door(ScanError, source, "index"):
        found = _Found()
        reorder_depth = int(stream.codec_context.reorder_depth)
        first = _read(container, stream, found)
        if not found.count:
            raise ScanError(
                f"cannot index {source}: its video stream holds no packet; "
                "the file is cut off or only a header",
                source=str(source),
            )
        if first is None:
            raise ScanError(
                f"cannot index {source}: none of its first {found.count} packets gives "
                f"a frame ({stream.codec_context.name}); the file is damaged or encrypted",
                source=str(source),
            )
        columns = np.frombuffer(found.rows, np.int64).reshape(found.count, -1).T.copy()
        pts, dts, duration, position, signature, flags, believed, state = columns
        info = _describe_stream(container, stream, first)
        shift = _shift_of(dts, info)
        if restarts := np.count_nonzero(np.diff(shift % _TURN)):
            found.problems.append(
                f"the clock of the file starts again ({restarts}x), as where parts were joined: "
                "times go on there, and are not those in the file"
            )
        if not info.orientation.is_exact:
            found.problems.append("display matrix is not a right angle: no turn is applied")
        return PacketTable(
            info=info,
            pts=pts,
            dts=dts,
            shift=shift,
            duration=duration,
            is_keyframe=flags & KEYFRAME > 0,
            is_shown=flags & (HIDDEN | _DISCARDED) == 0,
            is_droppable=flags & DROPPABLE > 0,
            signature=signature,
            position=position,
            trust=believed.astype(np.uint8) * np.uint8(not found.has_new_palette),
            told=b"".join(chain.from_iterable(found.states)),
            told_range=_told_ranges(found)[state],
            is_told_once=found.is_told_once,
            is_set_up_anew=len(found.setups) > 1,
            reorder_depth=reorder_depth,
            problems=tuple(dict.fromkeys(found.problems)),
        )


def _shift_of(dts: NDArray[np.int64], info: StreamInfo) -> NDArray[np.int64]:
    """Return the ticks to add to the times of each packet: see `PacketTable.shift`."""
    if "mov" in info.container.split(","):
        return np.zeros_like(dts)  # Its edit list has what is shown go on, not what is decoded.
    turn = _TURN if info.container in ("mpegts", "mpeg") else 0
    return clock_shifts(dts, info.time_base, turn=turn)


def _read(container: InputContainer, stream: VideoStream, found: _Found) -> VideoFrame | None:
    """Read every packet into `found`; return the first frame, if one can be decoded."""
    context = stream.codec_context
    prepare(context)
    # Of the first frame only its kind is wanted, not its pixels.
    context.options = {**context.options, "skip_loop_filter": "all"}
    codec, is_intra_only = context.codec.canonical_name, bool(context.codec.intra_only)
    prefix = nal.length_size(codec, context.extradata)
    glance, pack = glance_of(codec, prefix), _ROW.pack
    has_palette = context.pix_fmt == "pal8"
    first: VideoFrame | None = None
    try:
        for packet in container.demux(stream):
            if packet.size == 0:
                first = first or first_frame(context, None)
                continue
            data = memoryview(packet)
            flags = glance(data, packet.is_keyframe)
            believed = 0
            if flags & KEYFRAME:
                believed = trust(codec, data, prefix, is_intra_only=is_intra_only)
                if (setup := nal.setup(codec, data)) is not None:
                    found.setups.add(setup)
                found.is_told_once |= packet.has_sidedata("new_extradata")
            if has_palette and found.count and packet.has_sidedata(PALETTE):
                found.has_new_palette = found.is_told_once = True
            if packet.is_discard:
                flags |= _DISCARDED
            pts, dts, position = packet.pts, packet.dts, packet.pos
            found.rows += pack(
                NO_PTS if pts is None else pts,
                NO_PTS if dts is None else dts,
                packet.duration or 0,
                -1 if position is None else position,
                signature_of(data),
                flags,
                believed,
                found.state,
            )
            found.count += 1
            if flags & MAY_TELL:
                _tell(nal.parameter_sets(codec, data, prefix), found)
            if packet.is_corrupt:
                found.problems.append("some packets are marked damaged or cut off")
            if first is None and found.count == 1:
                first = frame_alone(context, packet)
            if first is None:
                first = first_frame(context, packet)
    except av.error.FFmpegError as error:
        found.problems.append(f"reading stops at packet {found.count}: {describe(error)}")
        first = first or first_frame(context, None)
    return first


def _tell(sets: Sequence[nal.ParameterSet], found: _Found) -> None:
    """Note that a packet tells parameter sets: they are in force from it on."""
    for is_sequence, unit in sets:
        found.sets.pop(unit, None)
        found.sets[unit] = None
        if is_sequence:
            found.setups.add(unit)
    in_force = tuple(found.sets) if found.count > 1 else ()
    if found.count == 1:
        found.sets.clear()  # The first packet is told to every codec in any case.
    found.states.setdefault((), 0)
    if len(found.states) >= _MOST_STATES:
        found.is_told_once = True
    else:
        found.state = found.states.setdefault(in_force, len(found.states))


def _told_ranges(found: _Found) -> NDArray[np.int64]:
    """Return int64 [states, 2]: which bytes of all states end to end are each one's."""
    lengths = [sum(map(len, state)) for state in found.states] or [0]
    stops = np.cumsum(lengths)
    return np.stack([stops - lengths, stops], axis=1).astype(np.int64)


def _describe_stream(
    container: InputContainer, stream: VideoStream, first: VideoFrame
) -> StreamInfo:
    context = stream.codec_context
    return StreamInfo(
        codec=context.codec.canonical_name,
        profile=context.profile or "",
        pixel_format=first.format.name,
        height=first.height,
        width=first.width,
        orientation=orientation_of(first),
        time_base=Fraction(stream.time_base or first.time_base or 1),
        nominal_rate=stream.average_rate or stream.guessed_rate,
        reorders=bool(context.has_b_frames),
        is_interlaced=first.interlaced_frame or int(context.field_order) not in (0, 1),
        container=container.format.name,
    )


def signature_of(packet: memoryview) -> int:
    """Return what tells a packet from others, wherever reading began: its length and first bytes.

    Times do not: after a seek some containers give other ones, and some files repeat them.
    """
    return len(packet) << 32 | zlib.crc32(packet[:_SIGNED_BYTES])


def length_of(signature: int) -> int:
    """Return the bytes of the packet with that signature."""
    return signature >> 32


def orientation_of(frame: VideoFrame) -> Orientation:
    """Return how `frame` is to be turned upright, by its display matrix."""
    try:
        side_data = cast(Iterable[SideData], frame.side_data)
    except ValueError:
        # PyAV stumbles over kinds of side data it has no name for, as on frames of two views.
        return Orientation.from_rotation(frame.rotation)
    for data in side_data:
        if data.type is Type.DISPLAYMATRIX:
            return Orientation.from_display_matrix(np.frombuffer(bytes(data), np.int32).tolist())
    return Orientation()
