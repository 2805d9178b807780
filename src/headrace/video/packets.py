"""Reading every packet of a stream once, without decoding, and counting by decoding where it must.

A frame is known by its packet: `ordinal` is the 0-based place of the packet in decoding order.
FFmpeg hands the packet's mark on to the frame that comes out of it, so this holds where
timestamps are missing, doubled or invented.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias, cast

import av
import numpy as np
from av.codec.hwaccel import HWAccel
from av.container import InputContainer
from av.packet import Packet
from av.sidedata.sidedata import SideData, Type
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.errors import ScanError
from headrace.video import nal
from headrace.video.container import describe, open_container
from headrace.video.shape import Orientation
from headrace.video.source import Source

VideoPacket: TypeAlias = "Packet[VideoStream]"

NO_PTS = np.iinfo(np.int64).min
"""Stands for a time the container does not give."""


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
    duration: NDArray[np.int64]
    """Ticks; 0 where the container gives none."""
    is_keyframe: NDArray[np.bool_]
    """Whether decoding can start here: FFmpeg's flag, or the picture's own type."""
    is_shown: NDArray[np.bool_]
    """False for packets an edit list hides, and for frames coded as never shown."""
    is_droppable: NDArray[np.bool_]
    """Whether no other frame refers to this one, by the packet's own header."""
    problems: tuple[str, ...]
    """What is wrong with the file, in words."""

    def __len__(self) -> int:
        return len(self.pts)


@dataclass(eq=False)
class _Columns:
    times: list[tuple[int, int, int]] = field(default_factory=list)
    flags: list[tuple[bool, bool, bool]] = field(default_factory=list)
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
    with container:
        columns = _Columns()
        first = _read_columns(container, stream, columns)
        if not columns.times:
            raise ScanError(
                f"cannot index {source}: its video stream holds no packet; "
                "the file is cut off or only a header",
                source=str(source),
            )
        if first is None:
            raise ScanError(
                f"cannot index {source}: none of its first {len(columns.times)} packets gives "
                f"a frame ({stream.codec_context.name}); the file is damaged or encrypted",
                source=str(source),
            )
        times = np.array(columns.times, np.int64).reshape(-1, 3)
        flags = np.array(columns.flags, np.bool_).reshape(-1, 3)
        info = _describe_stream(container, stream, first)
        if not info.orientation.is_exact:
            columns.problems.append("display matrix is not a right angle: no turn is applied")
        return PacketTable(
            info=info,
            pts=times[:, 0],
            dts=times[:, 1],
            duration=times[:, 2],
            is_keyframe=flags[:, 0],
            is_shown=flags[:, 1],
            is_droppable=flags[:, 2],
            problems=tuple(dict.fromkeys(columns.problems)),
        )


def shown_ordinals(source: Source) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decode the whole stream and return which packets become frames, in presentation order.

    Returns two int64 arrays of one row per frame: the ordinal of its packet, and its pts
    (`NO_PTS` where there is none).
    Cost: decodes every frame, converts none.
    """
    container, stream = open_container(source)
    found: list[tuple[int, int]] = []
    with container:
        context = stream.codec_context
        prepare(context)
        ordinal = 0
        for packet in packets_of(container, stream):
            if packet is not None:
                mark(packet, ordinal)
                ordinal += 1
            try:
                frames = context.decode(packet)
            except av.error.FFmpegError:
                continue
            for frame in frames:
                number = ordinal_of(frame)
                if number is not None:
                    found.append((number, NO_PTS if frame.pts is None else frame.pts))
    table = np.array(found, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


CODECS_MADE_ANEW = frozenset(
    ["h264", "hevc", "av1", "vp8", "vp9", "mpeg1video", "mpeg2video", "mpeg4"]
)
"""Codecs of which a second one can be made for a stream: `_STREAM_FACTS` is all they need."""

_STREAM_FACTS = (
    *("extradata", "codec_tag", "width", "height", "pix_fmt", "profile", "level"),
    *("bits_per_coded_sample", "reorder_depth"),
    *("color_range", "color_primaries", "color_trc", "colorspace"),
)


def prepare(context: VideoCodecContext) -> None:
    """Set up a decoder so that frames carry their packet's mark and damage is told, not hidden."""
    context.thread_count = 1
    context.copy_opaque = True
    if context.name in ("h264", "hevc"):
        # Otherwise damage is painted over: HEVC never says so, H.264 only once the frame is shown,
        # after frames that lean on it. Clean streams come out the same: tests/decode/test_exact.py.
        context.options = {"err_detect": "explode"}
    elif context.name == "mpeg4":
        # Otherwise it may take a damaged end of a picture for the padding of faulty encoders.
        context.options = {"err_detect": "buffer"}


def new_codec(stream: VideoStream, hardware: HWAccel | None = None) -> VideoCodecContext:
    """Return a new codec for the stream, as if the file had just been opened; on `hardware`.

    It takes over what FFmpeg found out about the stream when it opened the file, and costs 0.03 ms
    where opening anew costs 5 to 20.
    """
    known = stream.codec_context
    codec = av.CodecContext.create(known.name, "r", hardware)
    assert isinstance(codec, VideoCodecContext)
    for name in _STREAM_FACTS:
        # Hardware has a pixel format of its own.
        is_given = name == "pix_fmt" and codec.is_hwaccel
        if not is_given and (fact := getattr(known, name)) is not None:
            setattr(codec, name, fact)
    prepare(codec)
    return codec


def mark(packet: VideoPacket, ordinal: int) -> None:
    """Write the packet's ordinal on it, for the frame that comes out of it to carry on."""
    # A new object each time: PyAV keeps marks by identity, and equal small integers share theirs.
    packet.opaque = (ordinal,)


def ordinal_of(frame: VideoFrame) -> int | None:
    """Return the ordinal of the packet a frame came out of; None where the codec loses it."""
    return frame.opaque[0] if isinstance(frame.opaque, tuple) else None


def packets_of(container: InputContainer, stream: VideoStream) -> Iterator[VideoPacket | None]:
    """Yield the packets of `stream` that hold data, then None: the decoder is to be drained.

    A read error ends the stream like its end does: what was read before it stays good.
    """
    try:
        for packet in container.demux(stream):
            if packet.size:
                yield packet
    except av.error.FFmpegError:
        pass
    yield None


def frame_alone(context: VideoCodecContext, packet: VideoPacket) -> VideoFrame | None:
    """Return the frame of one packet, if it needs no other: a codec that reorders waits for them.

    So one picture is decoded in place of three or more, which is half the cost of a scan.
    """
    frame = _first_frame(context, packet) or _first_frame(context, None)
    if frame is None:
        context.flush_buffers()
    return frame


def _read_columns(
    container: InputContainer, stream: VideoStream, columns: _Columns
) -> VideoFrame | None:
    context = stream.codec_context
    prepare(context)
    codec = context.name
    prefix = nal.length_size(codec, context.extradata)
    first: VideoFrame | None = None
    try:
        for packet in container.demux(stream):
            if packet.size == 0:
                first = first or _first_frame(context, None)
                continue
            data = memoryview(packet)
            columns.times.append(
                (
                    NO_PTS if packet.pts is None else packet.pts,
                    NO_PTS if packet.dts is None else packet.dts,
                    packet.duration or 0,
                )
            )
            is_shown = not packet.is_discard and not nal.is_hidden(codec, data)
            droppable = nal.is_droppable(codec, data, prefix)
            is_keyframe = nal.is_keyframe(codec, data, prefix, packet.is_keyframe)
            columns.flags.append((is_keyframe, is_shown, droppable))
            if packet.is_corrupt:
                columns.problems.append("some packets are marked damaged or cut off")
            if first is None and len(columns.times) == 1:
                first = frame_alone(context, packet)
            first = first or _first_frame(context, packet)
    except av.error.FFmpegError as error:
        columns.problems.append(f"reading stops at packet {len(columns.times)}: {describe(error)}")
        first = first or _first_frame(context, None)
    return first


def _first_frame(context: VideoCodecContext, packet: VideoPacket | None) -> VideoFrame | None:
    try:
        frames = context.decode(packet)
    except av.error.FFmpegError:
        return None
    return frames[0] if frames else None


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


def orientation_of(frame: VideoFrame) -> Orientation:
    """Return how `frame` is to be turned upright, by its display matrix."""
    for data in cast(Iterable[SideData], frame.side_data):
        if data.type is Type.DISPLAYMATRIX:
            return Orientation.from_display_matrix(np.frombuffer(bytes(data), np.int32).tolist())
    return Orientation()
