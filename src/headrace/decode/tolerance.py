"""How far a picture of another backend may be from PyAV's, and still be the same picture.

Where two builds of FFmpeg give the same planes, they differ in what makes RGB of them: whether
colour, stored at half the resolution, is interpolated or repeated; how 10 bits are rounded to 8;
and, on a GPU, float in place of whole numbers. All of it shows at edges of colour, and hardly in
the mean. Another matrix or range, or another frame, does show in the mean.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.decode.pixels import Array

MEAN_APART: Final = 2.0
"""Levels of 255, over all numbers of a picture."""
FAR_APART: Final = 16
"""Levels of 255 from which a number is far off."""
FAR_SHARE: Final = 0.03
"""Share of all numbers that may be far off: edges of colour in 10-bit video came to 0.014."""


@dataclass(frozen=True, kw_only=True)
class Apart:
    """How far two pictures are from each other, in levels of 255."""

    mean: float
    most: int
    far_share: float
    """Share of the numbers that are more than `FAR_APART` off."""

    @classmethod
    def between(cls, found: Array, expected: Array) -> "Apart | None":
        """Return how far uint8 arrays are from each other; None where they differ in shape."""
        if found.shape != expected.shape:
            return None
        apart = np.abs(found.astype(np.int16) - expected)
        return cls(
            mean=float(apart.mean()),
            most=int(apart.max()),
            far_share=float((apart > FAR_APART).mean()),
        )

    @property
    def is_same(self) -> bool:
        """Whether they are the same picture: 0, where both are by the same arithmetic."""
        return self.mean <= MEAN_APART and self.far_share <= FAR_SHARE
