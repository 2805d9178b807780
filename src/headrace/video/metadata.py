"""Video metadata, from the file's header and the index."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from headrace.errors import OpenError
from headrace.video.container import open_container, translate_errors
from headrace.video.frames_played import played_range
from headrace.video.packet_table import length_of
from headrace.video.stream_index import StreamIndex

_MATRIX = {0: "rgb", 1: "bt709", 4: "fcc", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m"}
_MATRIX |= {8: "ycgco", 9: "bt2020nc", 10: "bt2020c", 14: "ictcp"}
_PRIMARIES = {1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "film"}
_PRIMARIES |= {9: "bt2020", 11: "smpte431", 12: "smpte432"}
_TRANSFER = {1: "bt709", 4: "gamma22", 5: "gamma28", 6: "smpte170m", 7: "smpte240m", 8: "linear"}
_TRANSFER |= {13: "iec61966-2-1", 14: "bt2020-10", 15: "bt2020-12", 16: "smpte2084"}
_TRANSFER |= {18: "arib-std-b67"}
_RANGE = {1: "limited", 2: "full"}
_UNSPECIFIED = frozenset([None, 2])
"""Codes of an unspecified matrix, primaries or transfer."""


@dataclass(frozen=True, kw_only=True)
class Color:
    """Color coding by FFmpeg's names; None if the file does not specify it.

    Frames without it are converted as BT.601, limited range, as in FFmpeg. Source of the codes:
    ITU-T H.273.
    """

    matrix: str | None
    """`bt709`, `smpte170m`, `bt2020nc`, ..."""
    primaries: str | None
    """`bt709`, `bt2020`, ..."""
    transfer: str | None
    """`bt709`, ...; `smpte2084` and `arib-std-b67` are HDR, which is not tone-mapped."""
    range: str | None
    """`limited` or `full`."""


@dataclass(frozen=True, kw_only=True)
class StreamDescription:
    """A stream of a file, by the file's header."""

    number: int
    """Index among all streams of the file."""
    kind: str
    """`video`, `audio`, `subtitle`, `data` or `attachment`."""
    codec: str
    """FFmpeg's name; empty if unknown."""
    language: str
    """Language tag, such as `eng`; empty without one."""
    is_read: bool
    """Whether it is the stream that is read."""


@dataclass(frozen=True, kw_only=True)
class VideoMetadata:
    """Metadata of a video, read without decoding."""

    source: str
    """The path, as given."""
    container: str
    """FFmpeg's name of the container format."""
    codec: str
    """FFmpeg's name of the codec."""
    profile: str
    """The codec's profile, or empty."""
    size: tuple[int, int]
    """(height, width) of upright frames, in stored pixels."""
    pixel_aspect: Fraction | None
    """Width ÷ height of an upright pixel; None if the file does not specify it: assume 1. Not
    applied to frames."""
    pixel_format: str
    """FFmpeg's name of the stored pixel format."""
    bits: int
    """Bits per color value; above 8, `dtype="uint16"` keeps them."""
    color: Color
    """Color coding."""
    rotation_degrees: int
    """Clockwise rotation to upright; it is applied."""
    is_mirrored: bool
    """Whether frames are also mirrored left-right; it is applied."""
    is_interlaced: bool
    """Whether the stream is, or may be, coded in fields; frames are not deinterlaced."""
    num_frames: int
    """Number of presented frames."""
    num_gops: int
    """Number of GOPs."""
    frame_rate: Fraction
    """Average frames per second, by the frames' times."""
    nominal_rate: Fraction | None
    """Frames per second as the container states it."""
    is_vfr: bool
    """Whether frames differ in duration."""
    start_seconds: float
    """Time when the first frame is shown, in seconds; often not 0."""
    stop_seconds: float
    """Time when the last frame ends, in seconds."""
    duration_seconds: float
    """Seconds from `start_seconds` to `stop_seconds`."""
    bit_rate: float
    """Bits per second of the video stream, by its packets; 0 if it has no duration."""
    file_bytes: int
    """Size of the file in bytes."""
    streams: tuple[StreamDescription, ...]
    """All streams of the file, in its order."""
    problems: tuple[str, ...]
    """Description of each fault of the file."""


def read_metadata(index: StreamIndex) -> VideoMetadata:
    """Return the metadata of a video; reads the header of its file, some 5 ms.

    Raises:
        OpenError: the file has changed since it was indexed, or is missing.
    """
    index.check_unchanged(0)
    info = index.info
    container, stream = open_container(index.source)
    with container, translate_errors(OpenError, index.source, "describe"):
        codec = stream.codec_context
        aspect = codec.sample_aspect_ratio or None
        streams = tuple(_describe_stream(other, stream.index) for other in container.streams)
        bits = codec.format.components[0].bits if codec.format else 8
        color = Color(
            matrix=_code_name(_MATRIX, codec.colorspace),
            primaries=_code_name(_PRIMARIES, codec.color_primaries),
            transfer=_code_name(_TRANSFER, codec.color_trc),
            range=_RANGE.get(int(codec.color_range or 0)),
        )
    if aspect is not None and info.orientation.is_transposed:
        aspect = 1 / aspect
    start, stop = played_range(index)
    bytes_read = sum(map(length_of, index.signature.tolist()))
    duration = index.duration_seconds
    return VideoMetadata(
        source=str(index.source),
        container=info.container,
        codec=info.codec,
        profile=info.profile,
        size=info.upright_size,
        pixel_aspect=aspect,
        pixel_format=info.pixel_format,
        bits=bits,
        color=color,
        rotation_degrees=info.orientation.rotation_degrees,
        is_mirrored=info.orientation.is_mirrored,
        is_interlaced=info.is_interlaced,
        num_frames=len(index),
        num_gops=index.num_gops,
        frame_rate=index.frame_rate,
        nominal_rate=info.nominal_rate,
        is_vfr=index.is_vfr,
        start_seconds=float(start),
        stop_seconds=float(stop),
        duration_seconds=duration,
        bit_rate=8 * bytes_read / duration if duration > 0 else 0.0,
        file_bytes=index.fingerprint.size,
        streams=streams,
        problems=index.problems,
    )


def _describe_stream(stream: Any, read: int) -> StreamDescription:
    """Describe a stream of any kind; FFmpeg may not know its codec."""
    codec = getattr(stream, "codec_context", None)
    language = stream.metadata.get("language", "")
    return StreamDescription(
        number=stream.index,
        kind=stream.type or "data",
        codec=codec.name if codec is not None else "",
        language="" if language == "und" else language,
        is_read=stream.index == read,
    )


def _code_name(names: dict[int, str], code: int | None) -> str | None:
    if code is None or code in _UNSPECIFIED:
        return None
    return names.get(int(code), f"code {int(code)}")
