"""Codecs of synthetic clips, with their FFmpeg encoders and pixel formats."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Codec = Literal[
    "h264",
    "hevc",
    "vp8",
    "vp9",
    "av1",
    "mpeg1video",
    "mpeg2video",
    "mpeg4",
    "h261",
    "h263",
    "h263p",
    "flv1",
    "rv10",
    "rv20",
    "wmv1",
    "wmv2",
    "msmpeg4v2",
    "msmpeg4v3",
    "cinepak",
    "svq1",
    "snow",
    "asv1",
    "asv2",
    "mjpeg",
    "ljpeg",
    "jpegls",
    "jpeg2000",
    "prores",
    "dnxhd",
    "cfhd",
    "dvvideo",
    "ffv1",
    "huffyuv",
    "ffvhuff",
    "utvideo",
    "magicyuv",
    "rawvideo",
    "png",
    "apng",
    "gif",
    "qtrle",
    "zlib",
    "zmbv",
    "flashsv",
    "flashsv2",
    "msvideo1",
    "msrle",
    "rpza",
    "smc",
    "roq",
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
