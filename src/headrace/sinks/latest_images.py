"""The newest picture of each source, side by side in one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.models.results import Boxes
from headrace.runtime.clock import Clock
from headrace.sinks.batch_results import ClassifiedBatch, DetectedBatch
from headrace.sinks.painting import BoxPainter, Caption, Overlay, make_caption


@dataclass(frozen=True, eq=False)
class _Shown:
    frame: NDArray[np.uint8]
    caption: Caption
    at_ns: int
    boxes: Boxes | None


class LatestImages:
    """Takes frames from one thread, gives pictures of all sources in any."""

    def __init__(self, names: tuple[str, ...], clock: Clock) -> None:
        """No frame has come; `names` are those of the sources, for a reader."""
        self._names = names
        self._clock = clock
        self._shown: Mapping[int, _Shown] = {}

    def show(self, seen: ClassifiedBatch | DetectedBatch) -> None:
        """Take the newest frame of a batch; copies it."""
        boxes = seen.boxes if isinstance(seen, DetectedBatch) else None
        frame, caption = seen.batch.frames[-1].copy(), make_caption(seen, -1)
        shown = _Shown(frame, caption, self._clock.now_ns(), boxes)
        self._shown = {**self._shown, seen.batch.video: shown}  # whoever draws has the one before

    def picture(self) -> Image.Image:
        """Return all of them in one, as `mosaic` does; after the first frame has come."""
        now_ns = self._clock.now_ns()
        return mosaic(
            [
                Tile(
                    frame=shown.frame,
                    caption=shown.caption,
                    name=self._names[source],
                    age_seconds=(now_ns - shown.at_ns) / 1e9,
                    boxes=shown.boxes,
                )
                for source, shown in sorted(self._shown.items())
            ]
        )


WIDTH: Final = 1280
"""Most pixels of a picture from left to right; more than a page shows."""
_SLACK: Final = 0.01
"""A third of 1280 is a third, although three of it are one pixel too wide."""
OLD_SECONDS: Final = 2.0
"""A tile that is older says so: beside others that move it would pass for live."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tile:
    """A frame and what is written on it."""

    frame: NDArray[np.uint8]
    """uint8 [H, W, 3] in [0, 255], RGB."""
    caption: Caption
    name: str
    """Of its source; shown where there are several."""
    age_seconds: float
    boxes: Boxes | None = None
    """Those of the last picture are drawn on the frame."""


def mosaic(tiles: Sequence[Tile]) -> Image.Image:
    """Return one RGB picture with all tiles, at least one, in rows as long as there are columns.

    Each tile is made a whole number of times smaller to fit, never larger. About 3 ms for 720p.
    """
    columns = math.ceil(math.sqrt(len(tiles)))
    room = WIDTH // columns
    pictures = [_picture(tile, room, is_alone=len(tiles) == 1) for tile in tiles]
    width = max(picture.width for picture in pictures)
    height = max(picture.height for picture in pictures)
    rows = math.ceil(len(tiles) / columns)
    whole = Image.new("RGB", (columns * width, rows * height))
    for k, picture in enumerate(pictures):
        row, column = divmod(k, columns)
        left, top = (width - picture.width) // 2, (height - picture.height) // 2
        whole.paste(picture, (column * width + left, row * height + top))
    return whole


def _picture(tile: Tile, room: int, *, is_alone: bool) -> Image.Image:
    frame = _shrunk(tile.frame, room)
    if tile.boxes is not None:
        scale = frame.shape[1] / tile.frame.shape[1]
        frame = BoxPainter(frame.shape[:2]).draw(frame, tile.boxes, -1, scale)
    label, note = tile.caption.label, tile.caption.note
    if not is_alone:
        label = f"{tile.name}: {label}"
        if tile.age_seconds > OLD_SECONDS:
            note = f"{tile.age_seconds:.0f} s old"
    return Image.fromarray(Overlay(frame.shape[:2]).draw(frame, label, note))


def _shrunk(frame: NDArray[np.uint8], room: int) -> NDArray[np.uint8]:
    """The frame, a whole number of times smaller: 1.3 ms for 1080p, ten for any other size."""
    factor = math.ceil(max(frame.shape) / room - _SLACK)
    return frame if factor <= 1 else np.asarray(Image.fromarray(frame).reduce(factor))
