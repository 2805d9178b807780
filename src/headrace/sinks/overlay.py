"""Text burnt into a frame: what the model saw there."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

_SMALLEST = 10
_DIMMED = 5
_MORE = "…"


class Overlay:
    """Draws one line of text on a dimmed band along the top of frames of one size."""

    def __init__(self, size: tuple[int, int]) -> None:
        """Choose letters that fit frames of `size`, (height, width); 10 pixels at least."""
        height, width = size
        self._letter = max(_SMALLEST, min(height // 18, width // 24))
        self._margin = self._letter // 2
        self._font = ImageFont.load_default(size=self._letter)

    def draw(self, frame: NDArray[np.uint8], label: str, note: str) -> NDArray[np.uint8]:
        """Return a copy of `frame`, uint8 [H, W, 3] RGB, with `label` on the left, `note` right.

        Where both do not fit, the label is shortened.
        """
        drawn = frame.copy()
        band = drawn[: self._letter + 2 * self._margin]
        image = Image.fromarray(band // _DIMMED)
        canvas, baseline = ImageDraw.Draw(image), self._margin + self._letter
        right = image.width - self._margin
        room = right - self._font.getlength(note) - 3 * self._margin
        for left, anchor, text in (
            (self._margin, "ls", self._shortened(label, room)),
            (right, "rs", note),
        ):
            canvas.text((left, baseline), text, fill="white", font=self._font, anchor=anchor)
        band[:] = np.asarray(image)
        return drawn

    def _shortened(self, text: str, room: float) -> str:
        """Return as much of `text` as fits into `room` pixels."""
        if self._font.getlength(text) <= room:
            return text
        while text and self._font.getlength(text + _MORE) > room:
            text = text[:-1]
        return text + _MORE if text else ""
