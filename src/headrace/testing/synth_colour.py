"""RGB to Y'CbCr by the formulas of the standards, and the colour tags of a stream.

Computed here, not by the scaler that decoding uses: its errors must not cancel out.
Source: Rec. ITU-T H.273, section 8.3 (matrix coefficients) and its tables 2 to 4 (code points).
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Colour:
    """Conversion from RGB to Y'CbCr, and the stream's tags for it."""

    matrix: Literal["bt601", "bt709", "bt2020"] = "bt601"
    """Standard of the matrix coefficients; primaries and transfer are tagged to match."""
    full_range: bool = False
    """Luma in [0, 255] rather than [16, 235]."""


class ColourTags(NamedTuple):
    """Code points of H.273, which are also FFmpeg's."""

    colorspace: int
    color_primaries: int
    color_trc: int
    color_range: int


def tags_of(colour: Colour) -> ColourTags:
    """Return the code points of `colour`."""
    matrix, primaries, transfer = {
        "bt601": (6, 6, 6),
        "bt709": (1, 1, 1),
        "bt2020": (9, 9, 14),
    }[colour.matrix]
    return ColourTags(matrix, primaries, transfer, 2 if colour.full_range else 1)


def to_ycbcr(picture: NDArray[np.uint8], colour: Colour) -> NDArray[np.uint8]:
    """Return the planes of `picture`: uint8 [3, H, W], luma first, chroma at full size.

    Args:
        picture: uint8 [H, W, 3] in [0, 255], RGB.
        colour: The conversion.
    """
    red, blue = {
        "bt601": (0.299, 0.114),
        "bt709": (0.2126, 0.0722),
        "bt2020": (0.2627, 0.0593),
    }[colour.matrix]
    luma = np.array([red, 1 - red - blue, blue])
    chroma_blue = (np.array([0, 0, 1]) - luma) / (2 - 2 * blue)
    chroma_red = (np.array([1, 0, 0]) - luma) / (2 - 2 * red)
    luma_span, luma_floor, chroma_span = (255, 0, 255) if colour.full_range else (219, 16, 224)
    spans = np.array([luma_span, chroma_span, chroma_span]) / 255
    weights = np.stack([luma, chroma_blue, chroma_red]) * spans[:, None]
    planes = picture @ weights.T + (luma_floor, 128, 128)
    return np.ascontiguousarray(
        np.clip(np.rint(planes), 0, 255).astype(np.uint8).transpose(2, 0, 1)
    )
