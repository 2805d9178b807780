"""Options of proxies, the entries that determine their output, and the encoder of each codec."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

import av
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import ColorRange, Colorspace

from headrace.config_fields import Option
from headrace.errors import BackendError, ConfigError
from headrace.extraction.extraction_options import WHOLE_FRAMES, ExtractionOptions
from headrace.profiling.provenance import Scalar
from headrace.units import check_counts
from headrace.video.pyav_version import check_full

Codec = Literal["h264", "hevc", "av1", "mjpeg"]
_JPEG_SCALE: Final = 3
"""FFmpeg's quality scale of JPEG, from 2, the best, to 31."""
_DECODERS: Final = {"av1": "libdav1d"}
"""Decoders of codecs for which FFmpeg's default needs hardware."""
_LAMBDA: Final = 118
"""FFmpeg's unit of the quality scale."""


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """Encoder settings of one codec, independent of the video, with one thread.

    All proxies of one size and color therefore have equal parameter sets, and can share a decoder.
    """

    encoder: str
    """FFmpeg's name."""
    options: Mapping[str, str]
    pixel_format: str = "yuv420p"
    tag: str | None = None
    """Track tag, if FFmpeg's default is supported by fewer players."""
    color: tuple[int, int] | None = None
    """(matrix, range) that the codec can signal; None: any."""


def encoding_of(codec: Codec, gop: int) -> Encoding:
    """Return the settings for closed GOPs of `gop` frames, without B-frames."""
    grouping = f"keyint={gop}:min-keyint={gop}:scenecut=0:bframes=0:open-gop=0"
    encodings = {
        "h264": Encoding(
            encoder="libx264",
            options={
                "preset": "veryfast",
                "tune": "fastdecode",
                "crf": "20",
                # With MB-tree and AVX-512, the output of x264 core 165 is not deterministic.
                "x264-params": f"{grouping}:threads=1:mbtree=0",
            },
        ),
        "hevc": Encoding(
            encoder="libx265",
            options={
                "preset": "veryfast",
                "crf": "22",
                "x265-params": f"{grouping}:pools=none:frame-threads=1:log-level=error:info=0",
            },
            tag="hvc1",
        ),
        "av1": Encoding(
            encoder="libsvtav1",
            options={
                "preset": "10",
                "crf": "30",
                "svtav1-params": f"keyint={gop}:irefresh-type=2:pred-struct=1:scd=0:lp=1",
            },
        ),
        "mjpeg": Encoding(
            encoder="mjpeg",
            options={"flags": "+qscale", "global_quality": str(_LAMBDA * _JPEG_SCALE)},
            pixel_format="yuvj420p",
            color=(Colorspace.ITU601, ColorRange.JPEG),
        ),
    }
    return encodings[codec]


def new_decoder(codec: str, extradata: bytes | None) -> VideoCodecContext:
    """Return a decoder of proxies, with one thread."""
    decoder = av.CodecContext.create(_DECODERS.get(codec, codec), "r")
    assert isinstance(decoder, VideoCodecContext)
    decoder.extradata, decoder.thread_count = extradata or None, 1
    return decoder


def check_encoder(codec: Codec) -> None:
    """Check that FFmpeg has an encoder for `codec`, and that PyAV is recent enough.

    Raises:
        BackendError: FFmpeg has no encoder for it; the message names the available codecs. Or PyAV
            is too old.
    """
    check_full("making proxies", "make them on another machine: any PyAV reads them")
    names: tuple[Codec, ...] = ("h264", "hevc", "av1", "mjpeg")
    available = [name for name in names if encoding_of(name, 1).encoder in av.codecs_available]
    if codec not in available:
        raise BackendError(
            f"this FFmpeg has no encoder for {codec} ({encoding_of(codec, 1).encoder}); available "
            f"codecs: {', '.join(available) or 'none'}; PyAV's wheel has all of them "
            "(pip install av)"
        )


_MIN_SIDE = 2
_MAX_SIDE = 8192


@dataclass(frozen=True)
class ShorterSide:
    """Size by the shorter side: keeps the aspect ratio; smaller videos keep their size."""

    pixels: int
    """Pixels of the shorter side; even."""

    def __post_init__(self) -> None:
        _check(self, self.pixels)

    def __str__(self) -> str:
        return str(self.pixels)

    @property
    def frame_size(self) -> tuple[int, int]:
        """Likely (height, width) of batches."""
        return self.pixels, self.pixels

    def of(self, upright: tuple[int, int]) -> tuple[int, int]:
        """Return the (height, width) of the proxy of upright frames of (height, width) `upright`.

        Both are even, and at most the video's, unless a side of the video is below two pixels.
        """
        shorter = min(upright)
        side = min(self.pixels, _even(shorter))
        height, width = (
            side
            if side_of_video == shorter
            else min(_even(side_of_video), 2 * round(side_of_video * side / shorter / 2))
            for side_of_video in upright
        )
        return height, width


@dataclass(frozen=True)
class ExactSize:
    """One size for all videos, stretched, as by default in loaders."""

    height: int
    width: int
    """Both even."""

    def __post_init__(self) -> None:
        _check(self, self.height, self.width)

    def __str__(self) -> str:
        return f"{self.height}x{self.width}"

    @property
    def frame_size(self) -> tuple[int, int]:
        """(height, width) of batches."""
        return self.height, self.width

    def of(self, upright: tuple[int, int]) -> tuple[int, int]:
        """Return the (height, width) of the proxy, equal for all videos."""
        return self.height, self.width


ProxySize = ShorterSide | ExactSize


def proxy_size(text: str) -> ProxySize:
    """Return the size from `256` (the shorter side) or `256x456` (height x width).

    Raises:
        ConfigError: the text is not a size; a side is odd, below 2 or above 8192.
    """
    match = re.fullmatch(r"(\d{1,9})(?:[x×](\d{1,9}))?", text.strip(), re.ASCII)
    if match is None:
        raise ConfigError(
            "the size of proxies must be the shorter side, such as 256, or HEIGHTxWIDTH, such as "
            f"256x456, got {text!r}"
        )
    if match[2] is None:
        return ShorterSide(int(match[1]))
    return ExactSize(int(match[1]), int(match[2]))


def _check(size: ProxySize, *sides: int) -> None:
    if any(side % 2 or not _MIN_SIDE <= side <= _MAX_SIDE for side in sides):
        raise ConfigError(
            f"sides of proxies must be even, from {_MIN_SIDE} to {_MAX_SIDE} pixels, as chroma has "
            f"half the resolution, got {size}"
        )


def _even(side: int) -> int:
    return max(_MIN_SIDE, side - side % 2)


_GOP: Final = 8
_MAX_GOP: Final = 600


@dataclass(frozen=True, kw_only=True)
class ProxyOptions(ExtractionOptions):
    """Options of proxies.

    A damaged video is left out, unless `on_error` is "conceal".
    """

    kind: ClassVar[str] = "proxies"
    size: ProxySize = field(default_factory=lambda: ShorterSide(256))
    """Size of the proxies."""
    gop: Annotated[
        int | None,
        Option("Frames from one keyframe to the next; default: 8, for mjpeg 1.", least=1),
    ] = None
    """Frames from one keyframe to the next; None: 8, or 1 if the codec has only keyframes."""
    codec: Annotated[Codec, Option("Codec of the proxies.")] = "h264"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gop is not None:
            if self.codec == "mjpeg" and self.gop != 1:
                raise ConfigError(
                    f"gop of mjpeg must be 1, because every frame is a keyframe, got {self.gop}"
                )
            check_counts(1, _MAX_GOP, gop=self.gop)
        if self.rate is not None or self.decode != "cpu":
            raise ConfigError(
                "proxies are made of videos decoded by FFmpeg; leave out rate and decode"
            )
        if self.shape != WHOLE_FRAMES:
            raise ConfigError(
                f"proxies show whole frames in the given size; leave shape out, got {self.shape}"
            )

    @property
    def gop_in_force(self) -> int:
        """Frames from one keyframe to the next."""
        return self.gop or (1 if self.codec == "mjpeg" else _GOP)

    def _asked(self) -> dict[str, Scalar]:
        return {"size": str(self.size), "gop": self.gop_in_force, "codec": self.codec}


def originals_of(paths: Iterable[Path], out: Path) -> tuple[str, ...]:
    """Return the videos outside the folder of the proxies.

    This allows a folder of videos to contain its proxies.

    Raises:
        ConfigError: all videos lie in the folder of the proxies.
    """
    own, videos = out.absolute(), list(paths)
    originals = tuple(str(path) for path in videos if own not in path.absolute().parents)
    if videos and not originals:
        raise ConfigError(
            f"all given videos are in {out}, the folder of the proxies; give another folder with -o"
        )
    return originals
