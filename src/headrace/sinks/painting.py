"""Painters of results on frames, and images of several frames: a mosaic, a row with captions."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from headrace.errors import ConfigError, reason_of
from headrace.models.results import Boxes, Labels
from headrace.runtime.clock import Clock
from headrace.sinks.batch_results import BatchResults


def make_caption(results: BatchResults[Any], k: int) -> tuple[str, str]:
    """Return the two texts of an `Overlay` for frame `k` of a batch: label and note.

    `street sign`, `93%   #120`; for a detector, its classes and the index of the frame: `dog,
    person ×2`, `#120`.
    """
    index, output = results.batch.index[k], results.output
    if isinstance(output, Boxes):
        counts = Counter(output.labels[k])
        label = ", ".join(name if n == 1 else f"{name} ×{n}" for name, n in counts.items())
        return label, f"#{index}"
    labels: Labels = output
    return labels.names[k][0], f"{labels.confidence[k][0]:.0%}   #{index}"


_MIN_TEXT_PIXELS = 10
_DIM_FACTOR = 5
"""Divisor of the pixels behind a text."""
_ELLIPSIS = "…"


class Overlay:
    """Overlay of one text line on a dimmed band, along the top of frames of one size."""

    def __init__(self, size: tuple[int, int]) -> None:
        """Choose the font, at least 10 pixels high, for frames of `size`, (height, width)."""
        height, width = size
        self._letter = max(_MIN_TEXT_PIXELS, min(height // 18, width // 24))
        self._margin = self._letter // 2
        self._font = ImageFont.load_default(size=self._letter)

    def draw(self, frame: NDArray[np.uint8], label: str, note: str) -> NDArray[np.uint8]:
        """Return a copy of `frame`, uint8 [H, W, 3] RGB, with `label` left and `note` right.

        A label that does not fit is shortened.
        """
        drawn = frame.copy()
        band = drawn[: self._letter + 2 * self._margin]
        image = Image.fromarray(band // _DIM_FACTOR)
        canvas, baseline = ImageDraw.Draw(image), self._margin + self._letter
        right = image.width - self._margin
        width = right - self._font.getlength(note) - 3 * self._margin
        for left, anchor, text in (
            (self._margin, "ls", self._shorten(label, width)),
            (right, "rs", note),
        ):
            canvas.text((left, baseline), text, fill="white", font=self._font, anchor=anchor)
        band[:] = np.asarray(image)
        return drawn

    def _shorten(self, text: str, width: float) -> str:
        """Return the start of `text` that fits into `width` pixels."""
        if self._font.getlength(text) <= width:
            return text
        while text and self._font.getlength(text + _ELLIPSIS) > width:
            text = text[:-1]
        return text + _ELLIPSIS if text else ""


_COLORS: Final = (
    *("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4"),
    *("#008080", "#9a6324", "#800000", "#808000", "#000075"),
)
"""Box colors, dark enough for white text."""


class Painter(Protocol):
    """Painter of results on frames of one size."""

    def paint(self, results: BatchResults[Any], k: int) -> NDArray[np.uint8]:
        """Return a copy of frame `k` of the batch, uint8 [H, W, 3] RGB, with its results."""
        ...


class LabelPainter:
    """Painter of the likeliest class, on a band along the top."""

    def __init__(self, size: tuple[int, int]) -> None:
        """Paint frames of `size`, (height, width)."""
        self._overlay = Overlay(size)

    def paint(self, results: BatchResults[Labels], k: int) -> NDArray[np.uint8]:
        """Return frame `k` with its label: see `Painter.paint`."""
        return self._overlay.draw(results.batch.frames[k], *make_caption(results, k))


class BoxPainter:
    """Painter of boxes with their classes and scores."""

    def __init__(self, size: tuple[int, int]) -> None:
        """Paint frames of `size`, (height, width)."""
        self._letter = max(_MIN_TEXT_PIXELS, min(size) // 30)
        self._width = max(1, min(size) // 240)
        self._font = ImageFont.load_default(size=self._letter)

    def paint(self, results: BatchResults[Boxes], k: int) -> NDArray[np.uint8]:
        """Return frame `k` with its boxes, the most confident on top: see `Painter.paint`."""
        return self.draw(results.batch.frames[k], results.output, k)

    def draw(
        self, frame: NDArray[np.uint8], boxes: Boxes, k: int, scale: float = 1.0
    ) -> NDArray[np.uint8]:
        """Return a copy of a frame with the boxes of image `k`, scaled by `scale`."""
        image = Image.fromarray(frame)  # a copy
        canvas = ImageDraw.Draw(image)
        for n in reversed(range(len(boxes.labels[k]))):
            color = _COLORS[int(boxes.classes[k][n]) % len(_COLORS)]
            text = f"{boxes.labels[k][n]} {boxes.scores[k][n]:.0%}"
            self._draw(canvas, (boxes.xyxy[k][n] * scale).tolist(), text, color)
        return np.asarray(image)

    def _draw(self, canvas: ImageDraw.ImageDraw, xyxy: list[float], text: str, color: str) -> None:
        left, top, right, bottom = xyxy
        if right <= left or bottom <= top:
            return
        canvas.rectangle((left, top, right, bottom), outline=color, width=self._width)
        band = self._letter + 4
        above = top - band if top >= band else top  # inside the box, without space above
        end = left + self._font.getlength(text) + 4
        canvas.rectangle((left, above, end, above + band), fill=color)
        canvas.text((left + 2, above + 1), text, fill="white", font=self._font)


class LatestImages:
    """Latest frame of each source: frames from one thread, images in any thread."""

    def __init__(self, names: tuple[str, ...], clock: Clock) -> None:
        """Start without frames; `names`: names of the sources, for captions."""
        self._names = names
        self._clock = clock
        self._latest: Mapping[int, tuple[int, Tile]] = {}
        """Source → time in ns and frame."""

    def show(self, results: BatchResults[Any]) -> None:
        """Keep the newest frame of a batch; copies it."""
        batch, output = results.batch, results.output
        tile = Tile(
            frame=batch.frames[-1].copy(),
            caption=make_caption(results, -1),
            name=self._names[batch.video],
            boxes=output if isinstance(output, Boxes) else None,
        )
        # A new mapping: another thread may be drawing the old one.
        self._latest = {**self._latest, batch.video: (self._clock.now_ns(), tile)}

    def image(self) -> Image.Image:
        """Return the mosaic of all latest frames; call it after the first `show`."""
        now_ns = self._clock.now_ns()
        latest = (self._latest[source] for source in sorted(self._latest))
        return mosaic([replace(tile, age_seconds=(now_ns - at_ns) / 1e9) for at_ns, tile in latest])


WIDTH: Final = 1280
"""Max width of the image, pixels."""
_ROUNDING: Final = 0.01
"""Tolerance of the scale: a tile may exceed its share of the width by a pixel."""
OLD_SECONDS: Final = 2.0
"""Age in seconds above which a tile displays it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tile:
    """A frame with its texts and boxes."""

    frame: NDArray[np.uint8]
    """uint8 [H, W, 3] in [0, 255], RGB."""
    caption: tuple[str, str]
    """See `make_caption`."""
    name: str
    """Name of its source; shown with several tiles."""
    age_seconds: float = 0.0
    boxes: Boxes | None = None
    """Boxes of a batch, whose last image is this frame; None: no boxes."""


def mosaic(tiles: Sequence[Tile]) -> Image.Image:
    """Return one RGB image of all tiles, at least one, in a square grid.

    Each tile is shrunk by an integer factor to fit, never enlarged. Takes about 3 ms for 720p.
    """
    columns = math.ceil(math.sqrt(len(tiles)))
    max_side = WIDTH // columns
    images = [_draw_tile(tile, max_side, is_alone=len(tiles) == 1) for tile in tiles]
    width = max(image.width for image in images)
    height = max(image.height for image in images)
    rows = math.ceil(len(tiles) / columns)
    grid = Image.new("RGB", (columns * width, rows * height))
    for k, image in enumerate(images):
        row, column = divmod(k, columns)
        left, top = (width - image.width) // 2, (height - image.height) // 2
        grid.paste(image, (column * width + left, row * height + top))
    return grid


def _draw_tile(tile: Tile, max_side: int, *, is_alone: bool) -> Image.Image:
    frame = _shrink(tile.frame, max_side)
    if tile.boxes is not None:
        scale = frame.shape[1] / tile.frame.shape[1]
        frame = BoxPainter(frame.shape[:2]).draw(frame, tile.boxes, -1, scale)
    label, note = tile.caption
    if not is_alone:
        label = f"{tile.name}: {label}"
        if tile.age_seconds > OLD_SECONDS:
            note = f"{tile.age_seconds:.0f} s old"
    return Image.fromarray(Overlay(frame.shape[:2]).draw(frame, label, note))


def _shrink(frame: NDArray[np.uint8], max_side: int) -> NDArray[np.uint8]:
    """Return the frame, shrunk by an integer factor: 1.3 ms for 1080p; other factors take 10 ms."""
    factor = math.ceil(max(frame.shape) / max_side - _ROUNDING)
    return frame if factor <= 1 else np.asarray(Image.fromarray(frame).reduce(factor))


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
