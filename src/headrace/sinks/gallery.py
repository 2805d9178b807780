"""The newest frame of each source, for what shows them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.models.results import Boxes
from headrace.runtime.clock import Clock
from headrace.sinks.caption import Caption, caption_of
from headrace.sinks.mosaic import Tile, mosaic
from headrace.sinks.seen import Found, Seen


@dataclass(frozen=True, eq=False)
class _Shown:
    frame: NDArray[np.uint8]
    caption: Caption
    at_ns: int
    boxes: Boxes | None


class Gallery:
    """Takes frames from one thread, gives pictures of all sources in any."""

    def __init__(self, names: tuple[str, ...], clock: Clock) -> None:
        """No frame has come; `names` are those of the sources, for a reader."""
        self._names = names
        self._clock = clock
        self._shown: Mapping[int, _Shown] = {}

    def show(self, seen: Seen | Found) -> None:
        """Take the newest frame of a batch; copies it."""
        boxes = seen.boxes if isinstance(seen, Found) else None
        frame, caption = seen.batch.frames[-1].copy(), caption_of(seen, -1)
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
