"""ClipAugment: chance in the geometry of a clip's pictures, drawn once for each pass of it."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from headrace.decode.frame_outputs import Pixels
from headrace.errors import ConfigError
from headrace.sampling.counter_rng import CounterRng, RngStream
from headrace.units import check_switches, is_number
from headrace.video.frame_format import FrameFormat


def flipped(picture: Pixels) -> Pixels:
    """Return a picture, uint8 [H, W, 3], with left and right in each other's place."""
    if isinstance(picture, torch.Tensor):
        return picture.flip(1)
    return picture[:, ::-1].copy()


def rotated(picture: Pixels, degrees: float) -> Pixels:
    """Return a picture, uint8 [H, W, 3], turned counter-clockwise about its middle, bilinear.

    What is laid open is black. Arrays are turned by Pillow, tensors by its formulas, bit by bit the
    same on the CPU; a GPU may round otherwise, which is one grey level. No GPU has run it yet.
    """
    if isinstance(picture, torch.Tensor):
        return _rotated(picture, degrees)
    whole = Image.fromarray(np.ascontiguousarray(picture))
    return np.asarray(whole.rotate(degrees, Image.Resampling.BILINEAR))


def _rotated(picture: torch.Tensor, degrees: float) -> torch.Tensor:
    """Return what Pillow makes of a picture, made on its device.

    As in Pillow's Geometry.c: a pixel is black where its middle comes from outside the picture;
    beyond the outermost middles the outermost pixels go on; fractions are cut off.
    """
    height, width = picture.shape[:2]
    angle = math.radians(degrees % 360)
    cosine, sine = round(math.cos(angle), 15), round(math.sin(angle), 15)
    right = torch.arange(width, dtype=torch.float64, device=picture.device) + 0.5
    down = torch.arange(height, dtype=torch.float64, device=picture.device)[:, None] + 0.5
    # Where each pixel comes from. In float64, as Pillow: edges decide between black and not, and
    # fractions that are cut off between one level and the next.
    x = cosine * right - sine * down + (-width / 2 * cosine + height / 2 * sine + width / 2)
    y = sine * right + cosine * down + (-width / 2 * sine - height / 2 * cosine + height / 2)
    is_inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    left, right_of, across = _taps(x, width)
    above, below, along = _taps(y, height)
    upper = _between(picture[above, left], picture[above, right_of], across)
    lower = _between(picture[below, left], picture[below, right_of], across)
    return (_between(upper, lower, along) * is_inside[..., None]).to(torch.uint8)


def _taps(place: torch.Tensor, side: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the two pixels that a place lies between, and how far from the first to the second."""
    first = (place - 0.5).floor()
    share = (place - 0.5 - first)[..., None]
    one, other = (each.clamp(0, side - 1).to(torch.int64) for each in (first, first + 1))
    return one, other, share


def _between(one: torch.Tensor, other: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    first = one.to(torch.float64)
    return first + (other - first) * share


@dataclass(frozen=True, kw_only=True, eq=False)
class Framing:
    """Resized and cropped as it is decoded; then flipped, then rotated."""

    shape: FrameFormat
    """What a decoder makes of each frame."""
    size: tuple[int, int]
    """(height, width) of the result."""
    is_flipped: bool
    degrees: float
    """Counter-clockwise, about the middle."""
    matrix: NDArray[np.float64]
    """float64 [3, 3]: from a pixel (x, y, 1) of the upright original to one of the result, where
    whole numbers are the middles of pixels."""

    @classmethod
    def of(
        cls,
        shape: FrameFormat,
        upright: tuple[int, int],
        *,
        is_flipped: bool = False,
        degrees: float = 0.0,
    ) -> Self:
        """Return the framing of a picture of an upright (height, width)."""
        fitting = shape.fitting(upright)
        (height, width), (top, left) = fitting.size, fitting.offset
        down, right = (made / side for made, side in zip(fitting.scaled, upright, strict=True))
        matrix = np.array([[right, 0.0, left], [0.0, down, top], [0.0, 0.0, 1.0]])
        if is_flipped:
            matrix = np.array([[-1.0, 0.0, width], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) @ matrix
        if degrees:
            matrix = _rotation(degrees, width / 2, height / 2) @ matrix
        return cls(
            shape=shape,
            size=fitting.size,
            is_flipped=is_flipped,
            degrees=degrees,
            # So far whole numbers were the edges of pixels.
            matrix=_shift(-0.5) @ matrix @ _shift(0.5),
        )

    def finish(self, picture: Pixels) -> None:
        """Flip and rotate a picture as it was decoded, uint8 [H, W, 3], in place, where it lies."""
        if self.is_flipped:
            picture[...] = flipped(picture)
        if self.degrees:
            picture[...] = rotated(picture, self.degrees)


def _rotation(degrees: float, x: float, y: float) -> NDArray[np.float64]:
    """Return a turn counter-clockwise, as it is seen, about (x, y); y counts downwards."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array(
        [
            [cosine, sine, x - cosine * x - sine * y],
            [-sine, cosine, y + sine * x - cosine * y],
            [0.0, 0.0, 1.0],
        ]
    )


def _shift(by: float) -> NDArray[np.float64]:
    return np.array([[1.0, 0.0, by], [0.0, 1.0, by], [0.0, 0.0, 1.0]])


_CAMERAS = 1 << 16
_DRAWN = 8
"""Numbers for each camera, of which some are not used yet."""


@dataclass(frozen=True, kw_only=True)
class AugmentParams:
    """What chance made of one camera in one pass of a clip."""

    scale: float = 1.0
    across: float | None = None
    """In [0, 1): where the crop lies between left and right; None: where its view has it."""
    is_flipped: bool = False
    degrees: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ClipAugment:
    """What chance does to the pictures of a clip, in this order; the same for all its moments.

        ClipAugment(scale=(0.94, 1.1), flip=0.5, rotate_degrees=(-5.4, 5.4))

    Drawn once for each pass of a clip, from the loader's seed, the epoch and the clip; of windows
    once for each, from its place in the epoch: so that workers, ranks and resuming change nothing.
    `batch.image_matrix` says what was done. Sizes stay as they are without it: what a scale or a
    rotation lays open is black.

    Raises:
        ConfigError: a range or a probability is none.
    """

    scale: tuple[float, float] = (1.0, 1.0)
    """Lowest and highest factor that the picture is resized by, besides its view, before it is
    cropped. At least 0.1, at most 10."""
    slides: bool = False
    """Whether the crop lies anywhere between the left and the right side of the picture."""
    flip: float = 0.0
    """Probability that left and right change places, after the crop."""
    rotate_degrees: tuple[float, float] = (0.0, 0.0)
    """Lowest and highest angle, counter-clockwise, about the middle of the crop, after the flip.
    Bilinear; some 4 ms for 256x704."""
    alike: bool = True
    """Whether all cameras of a clip are drawn alike; else each by itself."""

    def __post_init__(self) -> None:
        check_switches(slides=self.slides, alike=self.alike)
        _check_range("scale", self.scale, 0.1, 10.0)
        _check_range("rotate_degrees", self.rotate_degrees, -360.0, 360.0)
        if not (is_number(self.flip) and 0 <= self.flip <= 1):
            raise ConfigError(f"flip is a probability from 0 to 1, got {self.flip!r}")

    @property
    def only_flips(self) -> bool:
        """Whether draws differ in nothing but whether they flip."""
        is_fixed = all(low == high for low, high in (self.scale, self.rotate_degrees))
        return is_fixed and not self.slides

    def fixed(self, *, is_flipped: bool) -> AugmentParams:
        """Return what is done where draws only flip."""
        scale, degrees = float(self.scale[0]), float(self.rotate_degrees[0])
        return AugmentParams(scale=scale, is_flipped=is_flipped, degrees=degrees)

    def draw(self, *, seed: int, epoch: int, of: int, camera: int) -> AugmentParams:
        """Return what is done to a camera in one pass of a clip, or in a window; some 60 µs.

        Args:
            seed: Of the loader.
            epoch: The one whose order the clip is of.
            of: The clip's place in the layout; of a window, its place in the epoch.
            camera: Its place in a batch.
        """
        draws = CounterRng(seed=seed, epoch=epoch, purpose=RngStream.AUGMENT)
        first = (of * _CAMERAS + (0 if self.alike else camera)) * _DRAWN
        scale, across, flip, turn = draws.fractions(first + np.arange(4)).tolist()
        return AugmentParams(
            scale=_within(self.scale, scale),
            across=across if self.slides else None,
            is_flipped=flip < self.flip,
            degrees=_within(self.rotate_degrees, turn),
        )


def _within(bounds: tuple[float, float], fraction: float) -> float:
    low, high = bounds
    return float(low + (high - low) * fraction)


def _check_range(name: str, bounds: object, least: float, most: float) -> None:
    if isinstance(bounds, tuple | list) and len(bounds) == 2 and all(map(is_number, bounds)):
        low, high = bounds
        if least <= low <= high <= most:
            return
    raise ConfigError(
        f"{name} is (lowest, highest), numbers from {least:g} to {most:g}, got {bounds!r}"
    )
