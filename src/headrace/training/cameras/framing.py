"""Framing: how one camera's pictures become those of a batch, in one pass of a clip."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.decode.pixels import Pixels
from headrace.training.cameras.turning import flipped, rotated
from headrace.video.shape import FrameShape


@dataclass(frozen=True, kw_only=True, eq=False)
class Framing:
    """Resized and cropped as it is decoded; then flipped, then rotated."""

    shape: FrameShape
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
        shape: FrameShape,
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
