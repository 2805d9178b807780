"""Options of proxies, and the entries that determine their output."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Final

from headrace.config_fields import Option
from headrace.errors import ConfigError
from headrace.extraction.extraction_options import WHOLE_FRAMES, ExtractionOptions
from headrace.extraction.proxies.encoder import Codec
from headrace.profiling.provenance import Scalar
from headrace.units import check_counts

_LEAST = 2
_MOST = 8192


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
        """Likely (height, width) of batches of these videos."""
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
            "the size of proxies is that of the shorter side, such as 256, or height and width, "
            f"such as 256x456; got {text!r}"
        )
    if match[2] is None:
        return ShorterSide(int(match[1]))
    return ExactSize(int(match[1]), int(match[2]))


def _check(size: ProxySize, *sides: int) -> None:
    if any(side % 2 or not _LEAST <= side <= _MOST for side in sides):
        raise ConfigError(
            f"sides of proxies are even, from {_LEAST} to {_MOST} pixels, as colour has half the "
            f"resolution; got {size}"
        )


def _even(side: int) -> int:
    return max(_LEAST, side - side % 2)


_GOP: Final = 8
_MOST_GOP: Final = 600


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
        Option("Frames per GOP; by default 8, for mjpeg 1.", least=1),
    ] = None
    """Frames from one keyframe to the next; None: 8, or 1 where the codec has keyframes only."""
    codec: Annotated[Codec, Option("Codec of the proxies.")] = "h264"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gop is not None:
            if self.codec == "mjpeg" and self.gop != 1:
                raise ConfigError(
                    f"every frame of mjpeg is a keyframe, so gop must be 1 or not given, got "
                    f"{self.gop}"
                )
            check_counts(1, _MOST_GOP, gop=self.gop)
        if self.rate is not None or self.decode != "cpu":
            raise ConfigError(
                "proxies are of videos, which FFmpeg decodes; leave out rate and decode"
            )
        if self.shape != WHOLE_FRAMES:
            raise ConfigError(
                "a proxy stands for its original, so it shows whole frames, of a size given by "
                f"size; leave shape out, got {self.shape}"
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
            f"all videos that were given lie in {out}, where the proxies would go; give another "
            "folder with -o"
        )
    return originals
