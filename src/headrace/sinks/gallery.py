"""The newest frame of each source, for what shows them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.runtime.clock import Clock
from headrace.sinks.caption import Caption
from headrace.sinks.mosaic import Tile, mosaic


@dataclass(frozen=True, eq=False)
class _Shown:
    frame: NDArray[np.uint8]
    caption: Caption
    at_ns: int


class Gallery:
    """Takes frames from one thread, gives pictures of all sources in any."""

    def __init__(self, names: tuple[str, ...], clock: Clock) -> None:
        """No frame has come; `names` are those of the sources, for a reader."""
        self._names = names
        self._clock = clock
        self._shown: Mapping[int, _Shown] = {}

    def show(self, source: int, frame: NDArray[np.uint8], caption: Caption) -> None:
        """Take the newest frame of a source, uint8 [H, W, 3] RGB; copies it."""
        shown = _Shown(frame.copy(), caption, self._clock.now_ns())
        self._shown = {**self._shown, source: shown}  # whoever draws has the one before

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
                )
                for source, shown in sorted(self._shown.items())
            ]
        )
