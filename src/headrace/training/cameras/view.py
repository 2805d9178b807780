"""CameraView: what becomes of a camera's picture, resized first, then cropped."""

from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Literal

from headrace.errors import ConfigError
from headrace.sizes import one_of
from headrace.video.fitting import Fitting
from headrace.video.shape import Crop
from headrace.video.timebase import exact_number

Anchor = Literal["center", "bottom", "top"]
"""Where a crop lies that has only a size; from left to right always in the middle."""

_MOST_PIXELS = 1 << 14
"""Of a side of what a picture is resized to."""


@dataclass(frozen=True, kw_only=True)
class CameraView:
    """What becomes of a camera's picture: resized as a whole, then cropped.

        CameraView(resize=0.44, crop=(256, 704), anchor="bottom")

    makes 396x704 of 900x1600 and keeps the lower 256 rows, as StreamPETR and BEVDet do. Every pixel
    is that of the whole picture, resized and then cut, so a crop costs as much as the whole.

    Raises:
        ConfigError: there is no such resize, crop or anchor.
    """

    resize: float | tuple[int | None, int | None] | None = None
    """A factor, as it is written (0.44 is 11/25); or (height, width), where the side that is None
    follows from the aspect ratio. Sides are rounded down, as recipes do. None keeps the size."""
    crop: Crop | tuple[int, int] | None = None
    """A `Crop` of the resized picture, or the (height, width) of one that `anchor` places; None
    keeps all of it."""
    anchor: Anchor = "center"

    def __post_init__(self) -> None:
        self._check_resize()
        one_of(Anchor, anchor=self.anchor)
        if isinstance(self.crop, Crop) or self.crop is None:
            if self.anchor != "center":
                raise ConfigError(
                    f"anchor={self.anchor!r} places a crop of a size, got crop={self.crop}; give "
                    "crop=(height, width)"
                )
        elif not (_is_pair(self.crop) and all(_is_side(side) for side in self.crop)):
            raise ConfigError(
                "crop is a Crop(top=, left=, height=, width=), or (height, width), both integers "
                f">= 1, got {self.crop!r}"
            )

    def _check_resize(self) -> None:
        asked = self.resize
        if asked is None:
            return
        if isinstance(asked, tuple | list):
            sides = [side for side in asked if side is not None]
            if not _is_pair(asked) or not sides or not all(_is_side(side) for side in sides):
                raise ConfigError(
                    "resize is a factor, or (height, width), integers >= 1 of which one may be "
                    f"None, got {asked!r}"
                )
        elif exact_number("resize", asked) <= 0:
            raise ConfigError(f"resize must be above 0, got {asked!r}")

    def resized(self, upright: tuple[int, int]) -> tuple[int, int]:
        """Return the (height, width) that a picture of an upright (height, width) is resized to.

        Raises:
            ConfigError: a side is longer than 16384, or shorter than 1.
        """
        height, width = self._resized(upright)
        if not all(1 <= side <= _MOST_PIXELS for side in (height, width)):
            raise ConfigError(
                f"resize={self.resize} makes {height}x{width} (height x width) of a picture of "
                f"{upright[0]}x{upright[1]}; sides of 1 to {_MOST_PIXELS} are possible"
            )
        return height, width

    def _resized(self, upright: tuple[int, int]) -> tuple[int, int]:
        tall, wide = upright
        if self.resize is None:
            return upright
        if not isinstance(self.resize, tuple | list):
            factor = exact_number("resize", self.resize)
            return int(tall * factor), int(wide * factor)
        height, width = self.resize
        if height is None:
            assert width is not None
            return int(Fraction(tall * width, wide)), int(width)
        if width is None:
            return int(height), int(Fraction(wide * height, tall))
        return int(height), int(width)

    def size(self, upright: tuple[int, int]) -> tuple[int, int]:
        """Return the (height, width) that comes of a picture of an upright (height, width).

        Raises:
            ConfigError: the crop does not lie inside what the picture is resized to.
        """
        height, width = self.resized(upright)
        if self.crop is None:
            return height, width
        top, left, tall, wide = 0, 0, *self._cropped()
        if isinstance(self.crop, Crop):
            top, left = self.crop.top, self.crop.left
        if top + tall > height or left + wide > width:
            where = f" at {top}, {left}" if top or left else ""
            raise ConfigError(
                f"a crop of {tall}x{wide}{where} was asked of a picture of "
                f"{upright[0]}x{upright[1]}, resized to {height}x{width} (height x width); resize "
                "it to more, or crop less"
            )
        return tall, wide

    def fitting(
        self, upright: tuple[int, int], *, scale: float = 1.0, across: float | None = None
    ) -> Fitting:
        """Return where the resized picture lies in the result, whose size is that of `size`.

        Args:
            upright: (height, width) of the picture.
            scale: What it is resized by besides; what this lays open is black.
            across: In [0, 1): where the crop lies between the left and the right side of the
                picture; None: as `crop` and `anchor` have it.
        """
        size, whole = self.size(upright), self.resized(upright)
        height, width = (max(1, int(side * scale)) for side in whole) if scale != 1.0 else whole
        top, left = round((height - size[0]) / 2), round((width - size[1]) / 2)
        if isinstance(self.crop, Crop):
            crop = self.crop
            top = round((crop.top + crop.height / 2) * height / whole[0] - crop.height / 2)
            left = round((crop.left + crop.width / 2) * width / whole[1] - crop.width / 2)
        elif self.anchor != "center":
            top = height - size[0] if self.anchor == "bottom" else 0
        if across is not None and width > size[1]:
            left = int(across * (width - size[1] + 1))
        return Fitting(size=size, scaled=(height, width), offset=(-top, -left))

    def _cropped(self) -> tuple[int, int]:
        if isinstance(self.crop, Crop):
            return self.crop.height, self.crop.width
        assert self.crop is not None
        height, width = self.crop
        return int(height), int(width)


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _is_side(side: object) -> bool:
    return not isinstance(side, bool) and isinstance(side, Integral) and int(side) >= 1
