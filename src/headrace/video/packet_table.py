"""Packet table: all packets of a stream, read once; only the first frame is decoded."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
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
from headrace.video.container import describe, open_container, translate_errors
from headrace.video.frame_format import Orientation
from headrace.video.pyav_version import (
    has_side_data,
    may_be_in_fields,
    may_change_extradata,
    reorder_depth,
)
from headrace.video.random_access import (
    DISPOSABLE,
    HIDDEN,
    KEYFRAME,
    MAY_HAVE_PARAMETER_SETS,
    classify_keyframe,
    packet_flags_reader,
)
from headrace.video.source import Source
from headrace.video.timebase import NO_PTS, clock_shifts

_MAX_STATES = 256
"""Maximum number of recorded states of parameter sets; a stream with more needs one codec."""
_MAX_SET_BYTES: Final = 1 << 16
"""Maximum bytes of parameter sets in force, with `_SET_BYTES` each: 288 sets of H.264 take 30
kB."""
_SET_BYTES: Final = 64
"""Bytes that each parameter set counts in addition to its own."""
_SIGNED_BYTES = 256
"""Number of first bytes of a packet in its signature, besides its length."""

_CLOCK_PERIOD: Final = 1 << 33
"""Ticks after which an MPEG stream's clock wraps, by ISO/IEC 13818-1, 2.4.3.7."""

PALETTE: Final = "palette"
"""PyAV's name of a palette in side data."""


@dataclass(frozen=True, kw_only=True)
class StreamInfo:
    """Stream properties, checked on its first frame."""

    codec: str
    """FFmpeg's name of the codec: `h264`, `hevc`, ..."""
    profile: str
    """The codec's profile, or empty."""
    pixel_format: str
    """FFmpeg's name of the stored pixel format, such as `yuv420p10le`."""
    height: int
    """Stored rows, before rotation to upright."""
    width: int
    """Stored columns, before rotation to upright."""
    orientation: Orientation
    """Transform from stored to upright frames."""
    time_base: Fraction
    """Seconds per tick."""
    nominal_rate: Fraction | None
    """Frames per second by the container; not measured."""
    reorders: bool
    """Whether decoding order may differ from presentation order (B-frames)."""
    is_interlaced: bool
    """Whether the stream is, or may be, coded in fields."""
    container: str
    """FFmpeg's name of the container format."""

    @property
    def upright_size(self) -> tuple[int, int]:
        """(height, width) of an upright frame."""
        return self.orientation.upright_size((self.height, self.width))


@dataclass(frozen=True, kw_only=True, eq=False)
class PacketTable:
    """All packets of a stream, in decoding order: one row each."""

    info: StreamInfo
    pts: NDArray[np.int64]
    """Presentation times in ticks; `NO_PTS` if the container has none."""
    dts: NDArray[np.int64]
    """Decoding times in ticks; `NO_PTS` if the container has none."""
    clock_shift: NDArray[np.int64]
    """Ticks to add to pts and dts, so that they continue after a restart of the file's clock."""
    duration: NDArray[np.int64]
    """Durations in ticks; 0 if the container has none."""
    is_keyframe: NDArray[np.bool_]
    """Whether decoding can start here: FFmpeg's flag, or the picture type."""
    is_shown: NDArray[np.bool_]
    """False for packets that an edit list hides, and for frames coded as never shown."""
    is_disposable: NDArray[np.bool_]
    """Whether no other frame refers to this one, by the packet's header."""
    signature: NDArray[np.int64]
    """See `signature_of`."""
    position: NDArray[np.int64]
    """Byte of the file where the packet starts; -1 if the container has none."""
    random_access: NDArray[np.uint8]
    """`RandomAccess` of a keyframe's packet; 0 for other packets, and in a stream whose palette
    changes."""
    parameter_sets: bytes
    """Parameter sets in force before any packet, concatenated."""
    parameter_set_ranges: NDArray[np.int64]
    """int64 [packets, 2]: [first, stop) of the bytes of `parameter_sets` in force before each
    packet."""
    needs_one_codec: bool
    """Whether a packet has data that later packets need and that cannot be sent again."""
    has_new_setup: bool
    """Whether a keyframe has other parameters than the first one, such as another size."""
    reorder_depth: int
    """Number of frames that the decoder holds back, as known on opening the file."""
    problems: tuple[str, ...]
    """Description of each fault of the file."""

    def __len__(self) -> int:
        return len(self.pts)

    def parameter_sets_before_packet(self, packet_index: int) -> bytes | None:
        """Return the parameter sets in force before a packet; None if no codec can open there."""
        if self.needs_one_codec or packet_index >= len(self):
            return None
        begin, end = self.parameter_set_ranges[packet_index]
        return self.parameter_sets[begin:end]

    @property
    def shown_pts(self) -> NDArray[np.int64]:
        """int64 [packets]: pts in ticks of one clock; `NO_PTS` if the container has none."""
        return np.where(self.pts == NO_PTS, NO_PTS, self.pts + self.clock_shift)


_ROW = struct.Struct("=8q")
"""(pts, dts, duration, position, signature, flags, random access, parameter set state) of a packet.
Packed as bytes: tuples took twice the time."""
_DISCARDED = 16
"""Flag in addition to those of `random_access`: an edit list hides the packet."""


@dataclass(eq=False)
class _PacketScan:
    rows: bytearray = field(default_factory=bytearray)
    """A `_ROW` per packet."""
    count: int = 0
    """Number of packets so far."""
    needs_one_codec: bool = False
    has_new_palette: bool = False
    """Whether a later packet has a palette that further packets need."""
    setups: set[bytes] = field(default_factory=set)
    sets: dict[bytes, None] = field(default_factory=dict)
    """Parameter sets, ordered by their last appearance."""
    set_bytes: int = 0
    """Bytes of these sets, with `_SET_BYTES` for each; above `_MAX_SET_BYTES` no more are added."""
    states: dict[tuple[bytes, ...], int] = field(default_factory=dict)
    """Parameter sets in force -> index of the state; state 0 is that after the first packet."""
    state: int = 0
    problems: list[str] = field(default_factory=list)


def read_packets(source: Source) -> PacketTable:
    """Read every packet of `source` once; decode only the first frame.

    Only a decoded frame has the display matrix and the true size.
    Cost: reads the whole file, some 10 ms for a clip of 10 s.

    Raises:
        OpenError: it cannot be opened as video.
        ScanError: it has no packet, or no frame can be decoded.
    """
    container, stream = open_container(source)
    with container, translate_errors(ScanError, source, "index"):
        scan = _PacketScan()
        scan.needs_one_codec = may_change_extradata(source, container.format.name)
        depth = reorder_depth(stream.codec_context)
        first = _read(container, stream, scan)
        if not scan.count:
            raise ScanError(
                f"cannot index {source}: its video stream has no packet; "
                "the file is truncated, or only a header",
                source=str(source),
            )
        if first is None:
            raise ScanError(
                f"cannot index {source}: no frame can be decoded from its {scan.count} packets "
                f"({stream.codec_context.name}); the file is damaged or encrypted",
                source=str(source),
            )
        columns = np.frombuffer(scan.rows, np.int64).reshape(scan.count, -1).T.copy()
        pts, dts, duration, position, signature, flags, random_access, state = columns
        info = _describe_stream(container, stream, first)
        clock_shift = _clock_shift_of(dts, info)
        if restarts := np.count_nonzero(np.diff(clock_shift % _CLOCK_PERIOD)):
            scan.problems.append(
                f"the clock of the file restarts ({restarts}x), as in concatenated files: later "
                "times are shifted to continue, and differ from the file's"
            )
        if not info.orientation.is_exact:
            scan.problems.append("the rotation is not a multiple of 90 degrees: it is ignored")
        return PacketTable(
            info=info,
            pts=pts,
            dts=dts,
            clock_shift=clock_shift,
            duration=duration,
            is_keyframe=flags & KEYFRAME > 0,
            is_shown=flags & (HIDDEN | _DISCARDED) == 0,
            is_disposable=flags & DISPOSABLE > 0,
            signature=signature,
            position=position,
            random_access=random_access.astype(np.uint8) * np.uint8(not scan.has_new_palette),
            parameter_sets=b"".join(chain.from_iterable(scan.states)),
            parameter_set_ranges=_parameter_set_ranges(scan)[state],
            needs_one_codec=scan.needs_one_codec,
            has_new_setup=len(scan.setups) > 1,
            reorder_depth=depth,
            problems=tuple(dict.fromkeys(scan.problems)),
        )


def _clock_shift_of(dts: NDArray[np.int64], info: StreamInfo) -> NDArray[np.int64]:
    """Return the ticks to add to each packet's times: see `PacketTable.clock_shift`."""
    if "mov" in info.container.split(","):
        return np.zeros_like(dts)  # An edit list keeps pts continuous, but not dts.
    period = _CLOCK_PERIOD if info.container in ("mpegts", "mpeg") else 0
    return clock_shifts(dts, info.time_base, period=period)


def _read(container: InputContainer, stream: VideoStream, scan: _PacketScan) -> VideoFrame | None:
    """Read every packet into `scan`; return the first frame, if one can be decoded."""
    context = stream.codec_context
    prepare(context)
    # The pixels of the first frame are not used.
    context.options = {**context.options, "skip_loop_filter": "all"}
    codec, is_intra_only = context.codec.canonical_name, bool(context.codec.intra_only)
    prefix = nal.length_size(codec, context.extradata)
    read_flags, pack = packet_flags_reader(codec, prefix), _ROW.pack
    has_palette = context.pix_fmt == "pal8"
    first: VideoFrame | None = None
    try:
        for packet in container.demux(stream):
            if packet.size == 0:
                first = first or first_frame(context, None)
                continue
            data = memoryview(packet)
            flags = read_flags(data, packet.is_keyframe)
            random_access = 0
            if flags & KEYFRAME:
                random_access = classify_keyframe(codec, data, prefix, is_intra_only=is_intra_only)
                if (setup := nal.setup(codec, data)) is not None:
                    scan.setups.add(setup)
                scan.needs_one_codec |= has_side_data(packet, "new_extradata", unknown=False)
            if has_palette and scan.count and has_side_data(packet, PALETTE, unknown=True):
                scan.has_new_palette = scan.needs_one_codec = True
            if packet.is_discard:
                flags |= _DISCARDED
            pts, dts, position = packet.pts, packet.dts, packet.pos
            scan.rows += pack(
                NO_PTS if pts is None else pts,
                NO_PTS if dts is None else dts,
                packet.duration or 0,
                -1 if position is None else position,
                signature_of(data),
                flags,
                random_access,
                scan.state,
            )
            scan.count += 1
            if flags & MAY_HAVE_PARAMETER_SETS:
                _add_parameter_sets(nal.parameter_sets(codec, data, prefix), scan)
            if packet.is_corrupt:
                scan.problems.append("some packets are marked damaged or cut off")
            if first is None and scan.count == 1:
                first = frame_alone(context, packet)
            if first is None:
                first = first_frame(context, packet)
    except av.error.FFmpegError as error:
        scan.problems.append(f"reading stops at packet {scan.count}: {describe(error)}")
        first = first or first_frame(context, None)
    return first


def _add_parameter_sets(sets: Iterable[nal.ParameterSet], scan: _PacketScan) -> None:
    """Record a packet's parameter sets, which are in force from this packet on."""
    for is_sequence, unit in sets:
        if unit in scan.sets:
            del scan.sets[unit]
        else:
            scan.set_bytes += len(unit) + _SET_BYTES
        if scan.set_bytes > _MAX_SET_BYTES:
            scan.needs_one_codec = True
            return
        scan.sets[unit] = None
        if is_sequence:
            scan.setups.add(unit)
    in_force = tuple(scan.sets) if scan.count > 1 else ()
    if scan.count == 1:
        scan.set_bytes = 0
        scan.sets.clear()  # Every codec receives the first packet anyway.
    scan.states.setdefault((), 0)
    if len(scan.states) >= _MAX_STATES:
        scan.needs_one_codec = True
    else:
        scan.state = scan.states.setdefault(in_force, len(scan.states))


def _parameter_set_ranges(scan: _PacketScan) -> NDArray[np.int64]:
    """Return int64 [states, 2]: the byte range of each state."""
    lengths = [sum(map(len, state)) for state in scan.states] or [0]
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
        is_interlaced=first.interlaced_frame or may_be_in_fields(context),
        container=container.format.name,
    )


def signature_of(packet: memoryview) -> int:
    """Return a packet's signature for seeks: its length, and a CRC of its first bytes.

    Times cannot identify a packet: some containers return other times after a seek, and some files
    repeat them.
    """
    return len(packet) << 32 | zlib.crc32(packet[:_SIGNED_BYTES])


def length_of(signature: int) -> int:
    """Return the length in bytes of a signature's packet."""
    return signature >> 32


def orientation_of(frame: VideoFrame) -> Orientation:
    """Return the orientation of a frame, from its display matrix."""
    try:
        side_data = cast(Iterable[SideData], frame.side_data)
    except ValueError:
        # PyAV fails on unknown types of side data, such as of stereo frames.
        return Orientation.from_rotation(frame.rotation)
    for data in side_data:
        if data.type is Type.DISPLAYMATRIX:
            return Orientation.from_display_matrix(np.frombuffer(bytes(data), np.int32).tolist())
    return Orientation()
