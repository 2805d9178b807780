"""Codecs and containers of synthetic clips, with FFmpeg's encoders, formats, muxers and options."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

_CurrentCodec = Literal["h264", "hevc", "vp8", "vp9", "av1"]
_MpegCodec = Literal["mpeg1video", "mpeg2video", "mpeg4"]
_H263Codec = Literal["h261", "h263", "h263p", "flv1", "rv10", "rv20"]
_MicrosoftCodec = Literal["wmv1", "wmv2", "msmpeg4v2", "msmpeg4v3"]
_EarlyCodec = Literal["cinepak", "svq1", "snow", "asv1", "asv2"]
_JpegCodec = Literal["mjpeg", "ljpeg", "jpegls", "jpeg2000"]
_StudioCodec = Literal["prores", "dnxhd", "cfhd", "dvvideo"]
_LosslessCodec = Literal["ffv1", "huffyuv", "ffvhuff", "utvideo", "magicyuv", "rawvideo"]
_PictureCodec = Literal["png", "apng", "gif"]
_ScreenCodec = Literal["qtrle", "zlib", "zmbv", "flashsv", "flashsv2"]
_PaletteCodec = Literal["msvideo1", "msrle", "rpza", "smc", "roq"]
Codec = Literal[
    _CurrentCodec,
    _MpegCodec,
    _H263Codec,
    _MicrosoftCodec,
    _EarlyCodec,
    _JpegCodec,
    _StudioCodec,
    _LosslessCodec,
    _PictureCodec,
    _ScreenCodec,
    _PaletteCodec,
    "theora",
]
"""Codec by FFmpeg's name, not the encoder's."""

CODECS_WITH_B_FRAMES: tuple[Codec, ...] = ("h264", "hevc", "mpeg4", "mpeg1video", "mpeg2video")

ENCODERS: Mapping[Codec, str] = MappingProxyType(
    {
        "h264": "libx264",
        "hevc": "libx265",
        "vp8": "libvpx",
        "vp9": "libvpx-vp9",
        "av1": "libsvtav1",
        "flv1": "flv",
        "msmpeg4v3": "msmpeg4",
        "roq": "roqvideo",
        "theora": "libtheora",
    }
)
"""Codec → encoder, if it has another name."""

PIXEL_FORMATS: Mapping[Codec, tuple[str, ...]] = MappingProxyType(
    {
        "h264": ("yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "rgb24", "gray"),
        "hevc": ("yuv420p", "yuv422p", "yuv444p", "yuv420p10le"),
        "vp9": ("yuv420p", "yuv422p", "yuv444p"),
        "av1": ("yuv420p", "yuv420p10le"),
        "mpeg2video": ("yuv420p", "yuv422p"),
        "cinepak": ("rgb24",),
        "svq1": ("yuv410p",),
        "snow": ("yuv420p", "yuv444p"),
        "mjpeg": ("yuvj420p", "yuvj422p", "yuvj444p"),
        "ljpeg": ("yuvj420p", "bgr24"),
        "jpegls": ("rgb24", "gray"),
        "jpeg2000": ("rgb24", "yuv420p", "yuv444p"),
        "prores": ("yuv422p10le", "yuv444p10le"),
        "dnxhd": ("yuv422p",),
        "cfhd": ("yuv422p10le",),
        "ffv1": ("yuv420p", "yuv444p", "yuv422p10le", "bgr0"),
        "huffyuv": ("yuv422p", "rgb24"),
        "ffvhuff": ("yuv420p", "yuv444p"),
        "utvideo": ("yuv420p", "gbrp", "yuv422p"),
        "magicyuv": ("yuv420p", "gbrp"),
        "rawvideo": ("yuv420p", "rgb24", "uyvy422", "pal8"),
        "png": ("rgb24", "gray", "pal8"),
        "apng": ("rgb24", "rgba", "gray"),
        "gif": ("bgr8", "gray", "pal8"),
        "qtrle": ("rgb24", "rgb555be", "argb", "gray"),
        "zlib": ("bgr24",),
        "zmbv": ("bgr0", "rgb555le", "pal8"),
        "flashsv": ("bgr24",),
        "flashsv2": ("bgr24",),
        "msvideo1": ("rgb555le",),
        "msrle": ("pal8",),
        "rpza": ("rgb555le",),
        "smc": ("pal8",),
        "roq": ("yuvj444p",),
    }
)
"""Codec → pixel formats of its clips; other codecs have "yuv420p"."""


_RawContainer = Literal["obu", "h264", "hevc", "m1v", "m2v", "m4v", "h263"]
_FileContainer = Literal["mp4", "mov", "3gp", "mkv", "webm", "avi", "flv", "wmv", "nut", "mxf"]
_StreamContainer = Literal["ogg", "rm", "ts", "m2ts", "mpg", "vob", "svcd", "ivf"]
_SingleCodecContainer = Literal["mjpeg", "dv", "apng", "gif", "roq"]
Container = Literal[_FileContainer, _StreamContainer, _RawContainer, _SingleCodecContainer]
"""Also the suffix of the file."""

RAW_CONTAINERS: tuple[Container, ...] = get_args(_RawContainer)
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
