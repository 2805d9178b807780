"""What a model saw, drawn onto its frames: the label along the top, or boxes."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from headrace.models.results import Boxes
from headrace.sinks.batch_results import ClassifiedBatch, DetectedBatch, Taken


@dataclass(frozen=True)
class Caption:
    """The two texts of an `Overlay`."""

    label: str
    """`street sign`: the likeliest class; of a detector what was found, `dog, person ×2`."""
    note: str
    """`93%   #120`; of a detector, `#120`."""


def make_caption(seen: ClassifiedBatch | DetectedBatch, k: int) -> Caption:
    """Return what is written on frame `k` of a batch."""
    index = seen.batch.index[k]
    if isinstance(seen, DetectedBatch):
        counts = Counter(seen.boxes.labels[k])
        label = ", ".join(name if n == 1 else f"{name} ×{n}" for name, n in counts.items())
        return Caption(label, f"#{index}")
    found = seen.labels
    return Caption(found.names[k][0], f"{found.confidence[k][0]:.0%}   #{index}")


_MIN_TEXT_PIXELS = 10
_DIMMED = 5
_MORE = "…"


class Overlay:
    """Draws one line of text on a dimmed band along the top of frames of one size."""

    def __init__(self, size: tuple[int, int]) -> None:
        """Choose letters that fit frames of `size`, (height, width); 10 pixels at least."""
        height, width = size
        self._letter = max(_MIN_TEXT_PIXELS, min(height // 18, width // 24))
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


_SMALLEST: Final = 10
_COLOURS: Final = (
    *("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4"),
    *("#008080", "#9a6324", "#800000", "#808000", "#000075"),
)
"""All dark enough for white letters."""


class Painter(Protocol[Taken]):
    """Draws results onto frames of one size."""

    def paint(self, seen: Taken) -> Iterator[NDArray[np.uint8]]:
        """Yield a copy of each frame of the batch, uint8 [H, W, 3] RGB, with what was seen."""
        ...

    def paint_one(self, seen: Taken, k: int) -> NDArray[np.uint8]:
        """Return a copy of frame `k` of the batch with what was seen."""
        ...


class LabelPainter:
    """Writes the likeliest class of each frame on a band along its top."""

    def __init__(self, size: tuple[int, int]) -> None:
        """Take frames of `size`, (height, width)."""
        self._overlay = Overlay(size)

    def paint(self, seen: ClassifiedBatch) -> Iterator[NDArray[np.uint8]]:
        """Yield each frame with its label: see `Painter.paint`."""
        return (self.paint_one(seen, k) for k in range(len(seen.batch)))

    def paint_one(self, seen: ClassifiedBatch, k: int) -> NDArray[np.uint8]:
        """Return frame `k` with its label: see `Painter.paint_one`."""
        caption = make_caption(seen, k)
        return self._overlay.draw(seen.batch.frames[k], caption.label, caption.note)


class BoxPainter:
    """Draws a frame around each thing that was found, with its class and score."""

    def __init__(self, size: tuple[int, int]) -> None:
        """Take frames of `size`, (height, width)."""
        self._letter = max(_SMALLEST, min(size) // 30)
        self._width = max(1, min(size) // 240)
        self._font = ImageFont.load_default(size=self._letter)

    def paint(self, seen: DetectedBatch) -> Iterator[NDArray[np.uint8]]:
        """Yield each frame with its boxes: see `Painter.paint`. The surest lie on top."""
        return (self.paint_one(seen, k) for k in range(len(seen.batch)))

    def paint_one(self, seen: DetectedBatch, k: int) -> NDArray[np.uint8]:
        """Return frame `k` with its boxes: see `Painter.paint_one`."""
        return self.draw(seen.batch.frames[k], seen.boxes, k)

    def draw(
        self, frame: NDArray[np.uint8], boxes: Boxes, k: int, scale: float = 1.0
    ) -> NDArray[np.uint8]:
        """Return a copy of a frame with the boxes of picture `k`, times `scale`."""
        image = Image.fromarray(frame)  # a copy
        canvas = ImageDraw.Draw(image)
        for n in reversed(range(len(boxes.labels[k]))):
            colour = _COLOURS[int(boxes.classes[k][n]) % len(_COLOURS)]
            text = f"{boxes.labels[k][n]} {boxes.scores[k][n]:.0%}"
            self._draw(canvas, (boxes.xyxy[k][n] * scale).tolist(), text, colour)
        return np.asarray(image)

    def _draw(self, canvas: ImageDraw.ImageDraw, xyxy: list[float], text: str, colour: str) -> None:
        left, top, right, bottom = xyxy
        if right <= left or bottom <= top:
            return
        canvas.rectangle((left, top, right, bottom), outline=colour, width=self._width)
        band = self._letter + 4
        above = top - band if top >= band else top  # inside, where there is no room above
        end = left + self._font.getlength(text) + 4
        canvas.rectangle((left, above, end, above + band), fill=colour)
        canvas.text((left + 2, above + 1), text, fill="white", font=self._font)
