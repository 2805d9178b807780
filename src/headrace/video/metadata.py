"""What a video file says of itself, and what its index knows better."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from headrace.errors import OpenError
from headrace.video.container import open_container
from headrace.video.ffmpeg_errors import translate_errors
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
_UNSAID = frozenset([None, 2])
"""What stands for a matrix, primaries or transfer that the file does not name."""


@dataclass(frozen=True, kw_only=True)
class Colour:
    """How colours are coded, as FFmpeg names it; None where the file does not say.

    Where it does not, frames are converted as BT.601 of limited range, as FFmpeg does. Source of
    the codes: ITU-T H.273.
    """

    matrix: str | None
    """`bt709`, `smpte170m`, `bt2020nc`, ..."""
    primaries: str | None
    """`bt709`, `bt2020`, ..."""
    transfer: str | None
    """`bt709`; `smpte2084` and `arib-std-b67` are HDR, which is not mapped to what screens show."""
    range: str | None
    """`limited` or `full`."""


@dataclass(frozen=True, kw_only=True)
class StreamDescription:
    """One stream of a file, as its header tells it."""

    number: int
    """Place among all streams of the file."""
    kind: str
    """`video`, `audio`, `subtitle`, `data` or `attachment`."""
    codec: str
    """FFmpeg's name; empty where it knows none."""
    language: str
    """As tagged, such as `eng`; empty where it is not."""
    is_read: bool
    """Whether it is the one whose frames are read."""


@dataclass(frozen=True, kw_only=True)
class VideoMetadata:
    """What is known of a video without decoding it."""

    source: str
    """The path, as the user gave it."""
    container: str
    """FFmpeg's name of the container format."""
    codec: str
    """FFmpeg's name of the codec."""
    profile: str
    """The codec's profile, or empty."""
    size: tuple[int, int]
    """(height, width) of upright frames, in stored pixels."""
    pixel_aspect: Fraction | None
    """Width ÷ height of an upright pixel; None where the file does not say: take 1. Frames are not
    stretched by it."""
    pixel_format: str
    """FFmpeg's name of the stored pixel format."""
    bits: int
    """Of each colour value; above 8, ask for `dtype="uint16"` to keep them."""
    colour: Colour
    """How colours are coded."""
    rotation_degrees: int
    """Clockwise turn that makes stored frames upright; it is applied."""
    is_mirrored: bool
    """Whether they are also mirrored left-right; it is applied."""
    is_interlaced: bool
    """Whether the stream says it is, or may be, coded in fields; they are not taken apart."""
    num_frames: int
    """Frames presented."""
    num_gops: int
    """Places from which decoding can start."""
    frame_rate: Fraction
    """Average frames per second of media time, by the frames' own times."""
    nominal_rate: Fraction | None
    """Frames per second as the container announces it."""
    is_vfr: bool
    """Whether frames differ in duration."""
    start_seconds: float
    """When the first frame is shown; often not 0."""
    stop_seconds: float
    """When the last frame ends."""
    duration_seconds: float
    """From the one to the other."""
    bit_rate: float
    """Bits of the video stream ÷ seconds, by its packets; 0 where it has no duration."""
    file_bytes: int
    """Size of the whole file."""
    streams: tuple[StreamDescription, ...]
    """All streams of the file, in its order."""
    problems: tuple[str, ...]
    """What is wrong with the file, in words."""


def read_metadata(index: StreamIndex) -> VideoMetadata:
    """Return what is known of a video; reads the header of its file, some 5 ms.

    Raises:
        OpenError: the file has changed since it was indexed, or is gone.
    """
    index.check_unchanged(0)
    info = index.info
    container, stream = open_container(index.source)
    with container, translate_errors(OpenError, index.source, "describe"):
        codec = stream.codec_context
        aspect = codec.sample_aspect_ratio or None
        described = tuple(_described(each, stream.index) for each in container.streams)
        bits = codec.format.components[0].bits if codec.format else 8
        colour = Colour(
            matrix=_named(_MATRIX, codec.colorspace),
            primaries=_named(_PRIMARIES, codec.color_primaries),
            transfer=_named(_TRANSFER, codec.color_trc),
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
        colour=colour,
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
        streams=described,
        problems=index.problems,
    )


def _described(stream: Any, read: int) -> StreamDescription:
    """Describe a stream of any kind; of some FFmpeg knows no codec."""
    codec = getattr(stream, "codec_context", None)
    language = stream.metadata.get("language", "")
    return StreamDescription(
        number=stream.index,
        kind=stream.type or "data",
        codec=codec.name if codec is not None else "",
        language="" if language == "und" else language,
        is_read=stream.index == read,
    )


def _named(names: dict[int, str], code: int | None) -> str | None:
    return None if code in _UNSAID or code is None else names.get(int(code), f"code {int(code)}")
