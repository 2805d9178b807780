"""Containers of synthetic clips, with their codecs, FFmpeg muxers and options."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from headrace.testing.synth_codecs import Codec

Container = Literal[
    "mp4",
    "mov",
    "3gp",
    "mkv",
    "webm",
    "avi",
    "flv",
    "wmv",
    "nut",
    "mxf",
    "ogg",
    "rm",
    "ts",
    "m2ts",
    "mpg",
    "vob",
    "svcd",
    "ivf",
    "obu",
    "h264",
    "hevc",
    "m1v",
    "m2v",
    "m4v",
    "h263",
    "mjpeg",
    "dv",
    "apng",
    "gif",
    "roq",
]
"""Also the suffix of the file."""

RAW_CONTAINERS: tuple[Container, ...] = ("obu", "h264", "hevc", "m1v", "m2v", "m4v", "h263")
"""Streams without a container, whose frames have no times."""

_ANY_CODEC: tuple[Codec, ...] = (
    *("vp8", "vp9", "av1", "mpeg1video", "mpeg2video", "mpeg4", "h261", "h263", "h263p", "flv1"),
    *("wmv1", "wmv2", "msmpeg4v2", "msmpeg4v3", "cinepak", "svq1", "snow", "asv1", "asv2"),
    *("mjpeg", "ljpeg", "jpegls", "jpeg2000", "cfhd", "dvvideo", "ffv1", "huffyuv", "ffvhuff"),
    *("utvideo", "magicyuv", "rawvideo", "png", "zlib", "zmbv", "flashsv", "msvideo1", "rpza"),
)
_BROADCAST: tuple[Codec, ...] = ("h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4")

CODECS_IN: Mapping[Container, tuple[Codec, ...]] = MappingProxyType(
    {
        "mp4": (
            *("h264", "hevc", "vp9", "av1", "mpeg1video", "mpeg2video", "mpeg4", "mjpeg"),
            *("jpeg2000", "ffv1", "png"),
        ),
        "mov": (
            *("h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4", "h263", "msmpeg4v3", "gif"),
            *("cinepak", "svq1", "mjpeg", "jpeg2000", "prores", "dnxhd", "cfhd", "dvvideo"),
            *("magicyuv", "png", "qtrle", "rpza", "smc", "msrle"),
        ),
        "3gp": ("h264", "mpeg4", "h263"),
        "mkv": (
            *("h264", "hevc", "vp8", "vp9", "av1", "mpeg1video", "mpeg2video", "mpeg4", "snow"),
            *("msmpeg4v3", "mjpeg", "jpeg2000", "prores", "ffv1", "rawvideo", "theora"),
        ),
        "webm": ("vp8", "vp9", "av1"),
        "avi": ("h264", "msrle", "theora", *_ANY_CODEC),
        "flv": ("h264", "hevc", "vp9", "av1", "flv1", "flashsv", "flashsv2"),
        "wmv": ("h264", "msrle", *_ANY_CODEC),
        "nut": ("h264", "hevc", "gif", "theora", *_ANY_CODEC),
        "mxf": ("h264", "mpeg2video", "jpeg2000", "prores", "dnxhd", "dvvideo", "ffv1"),
        "ogg": ("vp8", "theora"),
        "rm": ("rv10", "rv20"),
        "ts": _BROADCAST,
        "m2ts": _BROADCAST,
        "mpg": _BROADCAST,
        "vob": _BROADCAST,
        "svcd": _BROADCAST,
        "ivf": ("vp8", "vp9", "av1"),
        "obu": ("av1",),
        "h264": ("h264",),
        "hevc": ("hevc",),
        "m1v": ("mpeg1video",),
        "m2v": ("mpeg2video",),
        "m4v": ("mpeg4",),
        "h263": ("h263",),
        "mjpeg": ("mjpeg",),
        "dv": ("dvvideo",),
        "apng": ("apng",),
        "gif": ("gif",),
        "roq": ("roq",),
    }
)
"""Container → codecs that it stores without loss."""

_MUXERS: Mapping[Container, str] = MappingProxyType(
    {
        "mkv": "matroska",
        "ts": "mpegts",
        "m2ts": "mpegts",
        "mpg": "mpeg",
        "wmv": "asf",
        "m1v": "mpeg1video",
        "m2v": "mpeg2video",
    }
)


def muxer_of(container: Container) -> str:
    """Return FFmpeg's name of the muxer of `container`."""
    return _MUXERS.get(container, container)


def muxer_options(container: Container) -> dict[str, str]:
    """Return options of the muxer that make the files of equal clips equal."""
    options = {"fflags": "+bitexact"}
    if container in ("mp4", "mov", "3gp"):
        options["movflags"] = "+faststart"
    if container == "m2ts":
        options["mpegts_m2ts_mode"] = "1"
    if container == "gif":
        options["loop"] = "-1"
    return options
