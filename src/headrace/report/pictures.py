"""Frames side by side in one picture."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from headrace.errors import ConfigError

_GAP, _CAPTION = 8, 24


def write_side_by_side(path: Path, frames: Sequence[tuple[NDArray[np.uint8], str]]) -> None:
    """Write frames (uint8 [H, W, 3] RGB), each above its caption, into one picture.

    Raises:
        ConfigError: the folder cannot be written, or the suffix names no picture format.
    """
    height = max(frame.shape[0] for frame, _ in frames)
    width = sum(frame.shape[1] for frame, _ in frames) + _GAP * (len(frames) - 1)
    picture = Image.new("RGB", (width, height + _CAPTION), "white")
    canvas, font, left = ImageDraw.Draw(picture), ImageFont.load_default(size=14), 0
    for frame, caption in frames:
        picture.paste(Image.fromarray(frame), (left, 0))
        canvas.text((left + 4, height + 4), caption, fill="black", font=font)
        left += frame.shape[1] + _GAP
    try:
        picture.save(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"cannot write the picture {path}: {reason.lower()}; "
            "give a path that ends in .png, in a folder that can be written to"
        ) from error
