"""The size of proxies: as it is asked for, and as it comes out for a video."""

import re
from dataclasses import dataclass

from headrace.errors import ConfigError

_LEAST = 2
_MOST = 8192


@dataclass(frozen=True)
class ShorterSide:
    """The aspect ratio stays; a video that is smaller keeps its size."""

    pixels: int
    """Of the shorter side; even."""

    def __post_init__(self) -> None:
        _check(self, self.pixels)

    def __str__(self) -> str:
        return str(self.pixels)

    @property
    def frame_size(self) -> tuple[int, int]:
        """(height, width) that batches of such videos likely have."""
        return self.pixels, self.pixels

    def of(self, upright: tuple[int, int]) -> tuple[int, int]:
        """Return the (height, width) of the proxy of upright frames of that (height, width).

        Both are even, and not larger than those of the video, where it has two pixels a side.
        """
        shorter = min(upright)
        side = min(self.pixels, _even(shorter))
        height, width = (
            side if each == shorter else min(_even(each), 2 * round(each * side / shorter / 2))
            for each in upright
        )
        return height, width


@dataclass(frozen=True)
class ExactSize:
    """All videos come out at one size, stretched, as loaders do it by default."""

    height: int
    width: int
    """Both even."""

    def __post_init__(self) -> None:
        _check(self, self.height, self.width)

    def __str__(self) -> str:
        return f"{self.height}x{self.width}"

    @property
    def frame_size(self) -> tuple[int, int]:
        """(height, width) that batches of them have."""
        return self.height, self.width

    def of(self, upright: tuple[int, int]) -> tuple[int, int]:
        """Return (height, width) of the proxy, whatever the video's."""
        return self.height, self.width


ProxySize = ShorterSide | ExactSize


def proxy_size(text: str) -> ProxySize:
    """Return the size that `256` (the shorter side) or `256x456` (height x width) says.

    Raises:
        ConfigError: it is none; a side is odd, below 2 or above 8192.
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
