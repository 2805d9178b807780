"""ClipAugment: chance in the geometry of a clip's pictures, drawn once for each pass of it."""

from dataclasses import dataclass

import numpy as np

from headrace.errors import ConfigError
from headrace.sampling.random import Draws, Purpose
from headrace.sizes import check_switches, is_number

_CAMERAS = 1 << 16
_DRAWN = 8
"""Numbers for each camera, of which some are not used yet."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
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

    def fixed(self, *, is_flipped: bool) -> Drawn:
        """Return what is done where draws only flip."""
        scale, degrees = float(self.scale[0]), float(self.rotate_degrees[0])
        return Drawn(scale=scale, is_flipped=is_flipped, degrees=degrees)

    def draw(self, *, seed: int, epoch: int, of: int, camera: int) -> Drawn:
        """Return what is done to a camera in one pass of a clip, or in a window; some 60 µs.

        Args:
            seed: Of the loader.
            epoch: The one whose order the clip is of.
            of: The clip's place in the layout; of a window, its place in the epoch.
            camera: Its place in a batch.
        """
        draws = Draws(seed=seed, epoch=epoch, purpose=Purpose.AUGMENT)
        first = (of * _CAMERAS + (0 if self.alike else camera)) * _DRAWN
        scale, across, flip, turn = draws.fractions(first + np.arange(4)).tolist()
        return Drawn(
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
