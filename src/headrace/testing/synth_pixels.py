"""Frames with their number as a barcode, the reader of the barcode, and RGB to Y'CbCr.

The upper five eighths show the number (`headrace.video.frame_barcode`), the lower part a moving
texture or six bars of known colours. The arithmetic is in integers, so frames are equal on all
machines.

Y'CbCr is computed by the formulas of the standards, not by the scaler of the decoders, so that
errors of the scaler do not cancel out.
Source: Rec. ITU-T H.273, section 8.3 (matrix coefficients) and its tables 2 to 4 (code points).
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.video.frame_barcode import (
    COLUMNS,
    DARK,
    LIGHT,
    blocks_of,
    code_height,
    edges_of,
    grid_of,
)

BARS = (
    (200, 40, 40),
    (40, 180, 60),
    (50, 60, 200),
    (210, 200, 50),
    (180, 50, 170),
    (128, 128, 128),
)
"""RGB of the colour bars, left to right."""

_GREY = range(104, 153)
"""Levels between dark and light blocks."""


def draw_picture(number: int, size: tuple[int, int], *, bars: bool = False) -> NDArray[np.uint8]:
    """Return frame `number`: uint8 [H, W, 3] in [0, 255], RGB.

    The number counts modulo `NUMBERS`. With `bars` the lower part shows the uniform colours `BARS`
    in place of the moving texture.
    """
    height, width = size
    texture = _texture(number, size)
    picture = texture.copy()
    for block, (rows, columns) in zip(blocks_of(number), grid_of(size), strict=True):
        level = LIGHT if block else DARK
        picture[rows, columns] = level + (texture[rows, columns] - 128) // 6
    if bars:
        picture[code_height(height) :] = _bars_row(width)
    return picture.astype(np.uint8)


def read_number(frame: NDArray[np.uint8]) -> int:
    """Return the number of an upright frame.

    It survives lossy compression and scaling down to 64x64, but not cropping. Blended, mirrored or
    rotated frames, and up to three damaged blocks, raise an error; they never return a wrong
    number.

    Args:
        frame: uint8 [H, W, 3] in [0, 255], RGB.

    Raises:
        ValueError: the frame has no readable number.
    """
    if frame.ndim != 3 or frame.shape[-1] != 3 or frame.dtype != np.uint8:
        raise ValueError(f"a frame must be uint8 [H, W, 3], got {frame.dtype} {list(frame.shape)}")
    blocks = []
    for index, (rows, columns) in enumerate(grid_of(frame.shape[:2])):
        level = frame[_middle(rows), _middle(columns)].mean()
        if int(level) in _GREY:
            row, column = divmod(index, COLUMNS)
            raise ValueError(
                f"the frame has no readable number: block {row}, {column} is neither dark nor "
                f"light (level {level:.0f}); it is blended, damaged, cropped or not a drawn frame"
            )
        blocks.append(int(level > _GREY.stop))
    number = int("".join(map(str, blocks[COLUMNS : COLUMNS + 16])), base=2)
    if tuple(blocks) != blocks_of(number):
        raise ValueError(
            f"the frame has no readable number: blocks {blocks} contradict their check code; the "
            "frame is damaged, mirrored, rotated, cropped or not a drawn frame"
        )
    return number


def read_bars(frame: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the mean RGB in the middle of each colour bar: float64 [6, 3] in [0, 255]."""
    height, width, _ = frame.shape
    rows = _middle(slice(code_height(height), height))
    edges = edges_of(width, COLUMNS)
    return np.stack([frame[rows, _middle(bar)].mean(axis=(0, 1)) for bar in edges])


def _middle(span: slice) -> slice:
    quarter = (span.stop - span.start) // 4
    return slice(span.start + quarter, span.stop - quarter)


def _bars_row(width: int) -> NDArray[np.int32]:
    row = np.zeros((width, 3), np.int32)
    for colour, columns in zip(BARS, edges_of(width, COLUMNS), strict=True):
        row[columns] = colour
    return row


def _texture(number: int, size: tuple[int, int]) -> NDArray[np.int32]:
    """Return a sum of three waves with different motions, which no motion vector predicts."""
    y, x, channel = _coordinates(size)
    phases = (
        9 * x + 24 * number + 90 * channel,
        13 * y - 17 * number + 50 * channel,
        5 * x + 7 * y + 61 * number,
    )
    total = np.zeros((*size, 3), np.int32)
    for phase in phases:
        total += np.abs((phase & 511) - 256)
    return total * 85 // 256


@cache
def _coordinates(size: tuple[int, int]) -> tuple[NDArray[np.int32], ...]:
    y, x, channel = np.ogrid[: size[0], : size[1], :3]
    return y.astype(np.int32), x.astype(np.int32), channel.astype(np.int32)


@dataclass(frozen=True, kw_only=True)
class Colour:
    """Conversion from RGB to Y'CbCr, and its tags in the stream."""

    matrix: Literal["bt601", "bt709", "bt2020"] = "bt601"
    """Standard of the matrix coefficients; primaries and transfer are tagged to match."""
    full_range: bool = False
    """Whether luma is in [0, 255], not in [16, 235]."""


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
