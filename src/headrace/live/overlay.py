"""Text burnt into a frame: what the model saw there."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

_TEXT = (255, 255, 255)
_BAND = (16, 24, 32)


class Overlay:
    """Draws lines of text on a dark band along the top of frames of one size."""

    def __init__(self, height: int) -> None:
        """Choose letters of about 1/18 of the frame's height, 10 pixels at least."""
        self._letter = max(10, height // 18)
        self._font = ImageFont.load_default(size=self._letter)

    def draw(self, frame: NDArray[np.uint8], text: str) -> NDArray[np.uint8]:
        """Return a copy of `frame` (uint8 [H, W, 3], RGB) with `text` on it."""
        image = Image.fromarray(frame)
        canvas = ImageDraw.Draw(image)
        margin = self._letter // 2
        canvas.rectangle((0, 0, image.width, self._letter + 2 * margin), fill=_BAND)
        canvas.text((margin, margin), text, fill=_TEXT, font=self._font)
        return np.asarray(image)
