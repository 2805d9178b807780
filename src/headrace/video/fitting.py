"""How a picture of one aspect ratio is made to fill a size of another, as a value."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

_Pixels = TypeVar("_Pixels", NDArray[np.uint8], "torch.Tensor")

Fit = Literal["stretch", "cover", "contain"]
"""`stretch` fills the size and gives up the aspect ratio. `cover` keeps it and fills the size: what
reaches beyond, on both sides alike, is cut. `contain` keeps it and shows all: the rest is black."""


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """A picture is scaled first, and then cut, or laid on black."""

    size: tuple[int, int]
    """(height, width) of the result."""
    scaled: tuple[int, int]
    """(height, width) that the picture is scaled to."""
    offset: tuple[int, int] = (0, 0)
    """(top, left) of the scaled picture in the result; below 0 where it is cut."""

    @classmethod
    def of(
        cls, picture: tuple[int, int], size: tuple[int, int], fit: Fit, *, is_even: bool = False
    ) -> "Fitting":
        """Return how a picture of a (height, width) comes to fill `size`.

        `cover` of a square is `Resize` and `CenterCrop` of torchvision, to the pixel.

        Args:
            picture: Its (height, width).
            size: (height, width) of the result.
            fit: What becomes of the aspect ratio.
            is_even: Whether sides and offsets must be even, as colour has half the resolution.
        """
        if fit == "stretch":
            return cls(size=size, scaled=size)
        step = 2 if is_even else 1
        scaled = _scaled(picture, size, fit, step)
        top, left = (
            step * round((whole - side) / 2 / step)
            for whole, side in zip(size, scaled, strict=True)
        )
        return cls(size=size, scaled=scaled, offset=(top, left))

    @property
    def halved(self) -> "Fitting":
        """The same of a plane of half the height and width."""
        (height, width), (tall, wide), (top, left) = self.size, self.scaled, self.offset
        return Fitting(
            size=(height // 2, width // 2),
            scaled=(tall // 2, wide // 2),
            offset=(top // 2, left // 2),
        )

    def place(self, pixels: _Pixels, out: _Pixels, black: int = 0) -> None:
        """Write the scaled picture, [scaled, ...], where it belongs in `out`, [size, ...]."""
        if self.scaled == self.size and not any(self.offset):
            out[...] = pixels
            return
        sides = [*zip(self.offset, self.scaled, self.size, strict=True)]
        if any(offset > 0 or offset + side < whole for offset, side, whole in sides):
            out[...] = black
        to, cut = [], []
        for offset, side, whole in sides:
            to.append(slice(max(0, offset), min(whole, offset + side)))
            cut.append(slice(max(0, -offset), min(side, whole - offset)))
        out[tuple(to)] = pixels[tuple(cut)]


def _scaled(
    picture: tuple[int, int], size: tuple[int, int], fit: Fit, step: int
) -> tuple[int, int]:
    """Return the sides of a picture that keeps its aspect ratio: one is that of the size."""
    (tall, wide), (height, width) = picture, size
    fills_height = (height * wide >= width * tall) == (fit == "cover")
    if fills_height:
        return height, _side(height * wide, tall, width, fit, step)
    return _side(width * tall, wide, height, fit, step), width


def _side(product: int, by: int, whole: int, fit: Fit, step: int) -> int:
    """Return product / by in whole steps: at least the side of the size, or at most."""
    side = product // by // step * step
    return max(side, whole) if fit == "cover" else min(max(side, step), whole)
