"""Latest frames of all sources, as one image."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.models.results import Boxes
from headrace.runtime.clock import Clock
from headrace.sinks.batch_results import BatchResults
from headrace.sinks.painting import BoxPainter, Caption, Overlay, make_caption


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
    caption: Caption
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
    label, note = tile.caption.label, tile.caption.note
    if not is_alone:
        label = f"{tile.name}: {label}"
        if tile.age_seconds > OLD_SECONDS:
            note = f"{tile.age_seconds:.0f} s old"
    return Image.fromarray(Overlay(frame.shape[:2]).draw(frame, label, note))


def _shrink(frame: NDArray[np.uint8], max_side: int) -> NDArray[np.uint8]:
    """Return the frame, shrunk by an integer factor: 1.3 ms for 1080p; other factors take 10 ms."""
    factor = math.ceil(max(frame.shape) / max_side - _ROUNDING)
    return frame if factor <= 1 else np.asarray(Image.fromarray(frame).reduce(factor))
