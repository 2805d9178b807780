"""Frame format: crop, size, fit, layout and dtype of delivered frames, and their orientation."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.units import check_counts, one_of

if TYPE_CHECKING:
    import torch


_Pixels = TypeVar("_Pixels", NDArray[np.uint8], "torch.Tensor")

Fit = Literal["stretch", "cover", "contain"]
"""`stretch` fills the size and changes the aspect ratio. `cover` keeps the ratio and fills the
size: the excess is cut on both sides. `contain` keeps the ratio and the full frame: the rest is
black."""


@dataclass(frozen=True, kw_only=True)
class ResizeFit:
    """Scaling of a frame, followed by cutting or by padding with black."""

    size: tuple[int, int]
    """(height, width) of the result."""
    scaled: tuple[int, int]
    """(height, width) that the frame is scaled to."""
    offset: tuple[int, int] = (0, 0)
    """(top, left) of the scaled frame in the result; negative if it is cut."""

    @classmethod
    def of(
        cls, frame_size: tuple[int, int], size: tuple[int, int], fit: Fit, *, is_even: bool = False
    ) -> "ResizeFit":
        """Return how a frame of a (height, width) fills `size`.

        `cover` of a square equals torchvision's `Resize` and `CenterCrop`, to the pixel.

        Args:
            frame_size: (height, width) of the frame.
            size: (height, width) of the result.
            fit: Rule for a size with another aspect ratio.
            is_even: Whether sides and offsets must be even, for chroma at half the resolution.
        """
        if fit == "stretch":
            return cls(size=size, scaled=size)
        step = 2 if is_even else 1
        scaled = _scaled_size(frame_size, size, fit, step)
        top, left = (
            step * round((whole - side) / 2 / step)
            for whole, side in zip(size, scaled, strict=True)
        )
        return cls(size=size, scaled=scaled, offset=(top, left))

    @property
    def for_chroma(self) -> "ResizeFit":
        """The fit of a plane of half the height and width."""
        (height, width), (tall, wide), (top, left) = self.size, self.scaled, self.offset
        return ResizeFit(
            size=(height // 2, width // 2),
            scaled=(tall // 2, wide // 2),
            offset=(top // 2, left // 2),
        )

    def place(self, pixels: _Pixels, out: _Pixels, black: int = 0) -> None:
        """Write the scaled frame, [scaled, ...], at its position in `out`, [size, ...]."""
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


def _scaled_size(
    frame_size: tuple[int, int], size: tuple[int, int], fit: Fit, step: int
) -> tuple[int, int]:
    """Return the scaled (height, width) of the same aspect ratio: one side fits the size."""
    (tall, wide), (height, width) = frame_size, size
    fills_height = (height * wide >= width * tall) == (fit == "cover")
    if fills_height:
        return height, _side(height * wide, tall, width, fit, step)
    return _side(width * tall, wide, height, fit, step), width


def _side(product: int, by: int, whole: int, fit: Fit, step: int) -> int:
    """Return product / by in whole steps: for `cover` at least `whole`, else at most."""
    side = product // by // step * step
    return max(side, whole) if fit == "cover" else min(max(side, step), whole)


Layout = Literal["rgb", "yuv420", "gray12"]
"""`rgb` is [H, W, 3]. `yuv420` is uint8 [H * W * 3 / 2 + 2], half the bytes: the planes Y, U and V
(chroma at half the resolution), and two bytes with their matrix and range. `gray12` is uint16
[H, W, 1] in [0, 4095]: the stored values of a depth video."""

Interpolation = Literal["area", "bilinear", "bicubic"]
"""`area` averages the stored colors, at the least cost, and enlarges by bicubic interpolation.
`bilinear` and `bicubic` equal torchvision's, antialiased, on RGB at full size."""

PixelType = Literal["uint8", "uint16"]
"""`uint8` is [0, 255]; `uint16` is [0, 65535], for video of more than 8 bits, of any depth. FFmpeg
converts the values: white of the usual limited range is 65283."""

TAG_BYTES = 2
"""Bytes of matrix and range at the end of a `yuv420` frame."""

_MAX_SIDE = 1 << 31
"""Maximum side of a crop in pixels, above that of any frame."""
_FIXED_POINT_ONE = 1 << 16


_CROP = r"(\d{1,5})[x×](\d{1,5})\+(\d{1,5})\+(\d{1,5})"


@dataclass(frozen=True, kw_only=True)
class Crop:
    """A rectangle of the upright frame, in pixels."""

    top: int
    left: int
    height: int
    width: int

    def __post_init__(self) -> None:
        check_counts(0, _MAX_SIDE, top=self.top, left=self.left)
        check_counts(1, _MAX_SIDE, height=self.height, width=self.width)

    @property
    def text(self) -> str:
        """Text for `parse`: `256x456+10+20`, height x width + top + left."""
        return f"{self.height}x{self.width}+{self.top}+{self.left}"

    @classmethod
    def parse(cls, text: str) -> "Crop":
        """Return the crop of a text such as `256x456+10+20`.

        Raises:
            ConfigError: the text has another form, or the crop no pixels.
        """
        match = re.fullmatch(_CROP, text.strip(), re.ASCII)
        if match is None:
            raise ConfigError(
                "a crop is height x width + top + left in pixels, such as 256x456+10+20; "
                f"got {text!r}"
            )
        height, width, top, left = map(int, match.groups())
        return cls(top=top, left=left, height=height, width=width)


def _is_pair(size: object) -> bool:
    return (
        isinstance(size, Sequence)
        and len(size) == 2
        and all(isinstance(side, Integral) and int(side) >= 1 for side in size)
    )


@dataclass(frozen=True, kw_only=True)
class FrameFormat:
    """Format of delivered frames: cropped first, then resized.

    `FrameFormat()` keeps the full upright frame. A crop is cut from the full frame, so decoding
    costs the same.
    """

    size: tuple[int, int] | None = None
    """(height, width) of the result; None keeps the size of the crop or of the frame."""
    crop: Crop | None = None
    """Part of the upright frame to keep; None keeps the full frame."""
    layout: Layout = "rgb"
    """Memory layout of the pixels; `yuv420` needs a size."""
    fit: Fit | ResizeFit = "stretch"
    """Rule for a size with another aspect ratio; or a `ResizeFit` with the exact position of the
    frame in the result."""
    interpolation: Interpolation = "area"
    """`area`, at the least cost, or torchvision's antialiased `bilinear` or `bicubic`."""
    dtype: PixelType = "uint8"
    """Dtype of the pixels: `uint8` in [0, 255], or `uint16` in [0, 65535]."""

    @classmethod
    def resolve(cls, shape: "FrameFormat | None") -> "FrameFormat":
        """Return the format of an optional argument.

        Raises:
            ConfigError: the argument has another type.
        """
        if shape is not None and not isinstance(shape, FrameFormat):
            raise ConfigError(
                f"shape must be a headrace.FrameFormat, got {shape!r}; give one, as in "
                "FrameFormat(size=(224, 224))"
            )
        return shape or cls()

    def __post_init__(self) -> None:
        one_of(Layout, layout=self.layout)
        if not isinstance(self.fit, ResizeFit):
            one_of(Fit, fit=self.fit)
        one_of(Interpolation, interpolation=self.interpolation)
        one_of(PixelType, dtype=self.dtype)
        if self.crop is not None and not isinstance(self.crop, Crop):
            raise ConfigError(
                f"crop must be a Crop(top=, left=, height=, width=), got {self.crop!r}"
            )
        if self.size is not None and not _is_pair(self.size):
            raise ConfigError(f"size is (height, width), both integers >= 1, got {self.size!r}")
        if self.size is not None:
            object.__setattr__(self, "size", tuple(map(int, self.size)))
        if self.layout == "yuv420" and (self.size is None or any(side % 2 for side in self.size)):
            got = "none" if self.size is None else f"{self.size[0]}x{self.size[1]}"
            raise ConfigError(
                f"YUV 4:2:0 needs a size of even height and width, got {got}; "
                "choose another size, or keep frames as RGB"
            )
        self._check_combination()

    def _check_combination(self) -> None:
        """Raise ConfigError for contradicting fields."""
        if isinstance(self.fit, ResizeFit) and (self.size != self.fit.size or self.layout != "rgb"):
            raise ConfigError(
                f"fit has the size {self.fit.size} and needs the same size and layout='rgb', got "
                f"size={self.size}, layout={self.layout!r}"
            )
        if self.size is None and self.fit != "stretch":
            raise ConfigError(
                f"fit={self.fit!r} needs a size to fit into; give size=(height, width)"
            )
        is_plain = self.interpolation == "area" and self.dtype == "uint8"
        if self.layout == "yuv420" and not is_plain:
            raise ConfigError(
                f"YUV 4:2:0 needs uint8 and area, got {self.dtype} and "
                f"{self.interpolation}; keep frames as RGB"
            )
        is_uncut = self.crop is None and self.fit == "stretch" and self.interpolation == "area"
        if self.layout == "gray12" and not (is_uncut and self.dtype == "uint16"):
            raise ConfigError(
                f"12-bit gray needs full frames of uint16, got {self.dtype}, {self.interpolation}, "
                f"fit={self.fit!r}, crop={self.crop}; give dtype='uint16', and at most size with it"
            )
        if self.interpolation != "area" and self.dtype != "uint8":
            raise ConfigError(
                f"{self.dtype} is resized by area only, got {self.interpolation}; "
                "choose one of the two"
            )

    def array_shape(self, size: tuple[int, int]) -> tuple[int, ...]:
        """Return the array shape of a frame with this output (height, width)."""
        height, width = size
        if self.layout == "yuv420":
            return (height * width * 3 // 2 + TAG_BYTES,)
        return height, width, 1 if self.layout == "gray12" else 3

    @property
    def item_bytes(self) -> int:
        """Bytes per value."""
        return np.dtype(self.dtype).itemsize

    def frame_bytes(self, size: tuple[int, int]) -> int:
        """Return the array bytes of a frame with this output (height, width)."""
        return math.prod(self.array_shape(size)) * self.item_bytes

    def output_size(self, upright: tuple[int, int]) -> tuple[int, int]:
        """Return (height, width) of the result for an upright (height, width).

        Raises:
            ConfigError: the crop lies outside the frame.
        """
        if self.crop is not None:
            bottom, right = self.crop.top + self.crop.height, self.crop.left + self.crop.width
            if bottom > upright[0] or right > upright[1]:
                raise ConfigError(
                    f"crop {self.crop} lies outside a frame of {upright[0]}x{upright[1]} "
                    "(height x width); choose a crop inside it"
                )
        if self.size is not None:
            return self.size
        if self.crop is not None:
            return self.crop.height, self.crop.width
        return upright

    def fitting(self, upright: tuple[int, int]) -> ResizeFit:
        """Return how a cropped upright frame is scaled and positioned in the result."""
        if isinstance(self.fit, ResizeFit):
            return self.fit
        return ResizeFit.of(
            upright,
            upright if self.size is None else self.size,
            self.fit,
            is_even=self.layout == "yuv420",
        )


@dataclass(frozen=True)
class Orientation:
    """Transform from stored to upright rows and columns: transposed first, then flipped."""

    is_transposed: bool = False
    is_flipped_horizontally: bool = False
    is_flipped_vertically: bool = False
    is_exact: bool = field(default=True, compare=False)
    """False if the file's rotation is not a multiple of 90 degrees, and is ignored."""

    @classmethod
    def from_display_matrix(cls, matrix: Sequence[int]) -> "Orientation":
        """Read a track's 3x3 display matrix: 9 fixed-point numbers (16.16, last column 2.30).

        Source: ISO/IEC 14496-12, 6.2.2: (x', y') = (a x + c y, b x + d y).
        """
        a, b, c, d = (matrix[k] / _FIXED_POINT_ONE for k in (0, 1, 3, 4))
        if _is_axis(a) and _is_axis(d) and _is_zero(b) and _is_zero(c):
            return cls(False, a < 0, d < 0)
        if _is_axis(b) and _is_axis(c) and _is_zero(a) and _is_zero(d):
            return cls(True, c < 0, b < 0)
        return cls(is_exact=False)

    @classmethod
    def from_rotation(cls, degrees: float) -> "Orientation":
        """Return the rotation by `degrees` counter-clockwise, without a mirror."""
        cosine, sine = (round(f(math.radians(degrees)), 6) for f in (math.cos, math.sin))
        a, b, c, d = (round(v * _FIXED_POINT_ONE) for v in (cosine, -sine, sine, cosine))
        return cls.from_display_matrix([a, b, 0, c, d, 0, 0, 0, 1 << 30])

    @property
    def rotation_degrees(self) -> Literal[0, 90, 180, 270]:
        """Clockwise rotation to upright: 0, 90, 180 or 270; without the mirror."""
        degrees: tuple[Literal[0, 90, 180, 270], ...] = (0, 90, 180, 270)
        return degrees[self.is_transposed + 2 * self.is_flipped_vertically]

    @property
    def is_mirrored(self) -> bool:
        """Whether the frame is also mirrored (left-right, after the rotation)."""
        flips = self.is_flipped_horizontally + self.is_flipped_vertically + self.is_transposed
        return flips % 2 == 1

    def upright_size(self, stored: tuple[int, int]) -> tuple[int, int]:
        """Return the upright (height, width) of a frame stored as (height, width)."""
        return (stored[1], stored[0]) if self.is_transposed else stored

    def upright(self, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return a view of `frame` [H, W, ...] in upright orientation, without a copy."""
        if self.is_transposed:
            frame = frame.swapaxes(0, 1)
        if self.is_flipped_horizontally:
            frame = frame[:, ::-1]
        if self.is_flipped_vertically:
            frame = frame[::-1]
        return frame

    def stored(self, upright: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return a view of an upright frame in stored orientation: the inverse of `upright`."""
        if self.is_flipped_vertically:
            upright = upright[::-1]
        if self.is_flipped_horizontally:
            upright = upright[:, ::-1]
        return upright.swapaxes(0, 1) if self.is_transposed else upright

    def stored_crop(self, crop: Crop, stored: tuple[int, int]) -> Crop:
        """Return the rectangle of an upright `crop` in a frame stored as (height, width)."""
        height, width = self.upright_size(stored)
        top, left = crop.top, crop.left
        if self.is_flipped_vertically:
            top = height - top - crop.height
        if self.is_flipped_horizontally:
            left = width - left - crop.width
        if self.is_transposed:
            return Crop(top=left, left=top, height=crop.width, width=crop.height)
        return Crop(top=top, left=left, height=crop.height, width=crop.width)


def _is_zero(value: float) -> bool:
    return math.isclose(value, 0.0, abs_tol=1e-3)


def _is_axis(value: float) -> bool:
    return not _is_zero(value) and math.isfinite(value)
