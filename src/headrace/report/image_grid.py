"""Image of several frames side by side."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from headrace.errors import ConfigError, reason_of

_GAP, _CAPTION, _MARGIN = 8, 24, 4
"""Pixels between columns, height of a caption, and pixels around its text."""
_FONT_SIZE = 14


def write_side_by_side(path: Path, frames: Sequence[tuple[NDArray[np.uint8], str]]) -> None:
    """Write one image with all frames (uint8 [H, W, 3] RGB) side by side, each above its caption.

    A column is at least as wide as its caption; narrower frames are left-aligned.

    Raises:
        ConfigError: the folder cannot be written, or the suffix is not of an image format.
    """
    font = ImageFont.load_default(size=_FONT_SIZE)
    widths = [
        max(frame.shape[1], math.ceil(font.getlength(caption)) + 2 * _MARGIN)
        for frame, caption in frames
    ]
    height = max(frame.shape[0] for frame, _ in frames)
    size = (sum(widths) + _GAP * (len(widths) - 1), height + _CAPTION)
    image, left = Image.new("RGB", size, "white"), 0
    canvas = ImageDraw.Draw(image)
    for (frame, caption), width in zip(frames, widths, strict=True):
        image.paste(Image.fromarray(frame), (left, 0))
        canvas.text((left + _MARGIN, height + _MARGIN), caption, fill="black", font=font)
        left += width + _GAP
    try:
        image.save(path)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot write the picture {path}: {reason_of(error)}; "
            "give a path that ends in .png, in a folder that can be written to"
        ) from error
