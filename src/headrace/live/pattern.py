"""Test pattern source: a moving image with the frame number in its pixels."""

from collections.abc import Callable, Iterator
from itertools import count

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.live.address import PatternAddress
from headrace.live.live_source import Event, LiveFrame, notifier
from headrace.profiling.session import Pace
from headrace.runtime.item import DroppedItem
from headrace.runtime.waitable_source import Waiter
from headrace.video.frame_barcode import DARK, LIGHT, blocks_of, grid_of

_PERIOD = 256
"""Period of the background, in columns."""
_COLUMNS_PER_FRAME = 4
"""Motion of the background."""
_TINTS = ((1.0, 0.55, 0.2), (0.2, 1.0, 0.55), (0.55, 0.2, 1.0), (0.9, 0.9, 0.9))


class PatternSource:
    """Test pattern in real time: frame n is due n / rate seconds after the start (open loop)."""

    base: Pace = "schedule"

    def __init__(self, address: PatternAddress) -> None:
        """Prepare the pattern; frames are drawn on demand."""
        self._address = address

    @property
    def name(self) -> str:
        """Address of the pattern."""
        return self._address.name

    def draw(self, number: int) -> NDArray[np.uint8]:
        """Return frame `number`: uint8 [H, W, 3] in [0, 255], RGB.

        `headrace.testing.read_number` reads the number. Takes about 1 ms for 720p.
        """
        _, width = self._address.size
        first = number * _COLUMNS_PER_FRAME % _PERIOD
        frame: NDArray[np.uint8] = self._background[:, first : first + width].copy()
        for is_light, (rows, columns) in zip(blocks_of(number), self._grid, strict=True):
            frame[rows, columns] = LIGHT if is_light else DARK
        return frame

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | DroppedItem]:
        """Yield each frame when it is due. See `LiveSource`."""
        address, notify = self._address, notifier(number, waiter.clock, note)
        start_ns = waiter.clock.now_ns()
        notify("joined", "joined")
        for frame_index in count():
            if address.seconds is not None and frame_index >= address.seconds * address.rate:
                break
            due_ns = start_ns + round(frame_index * 1_000_000_000 / address.rate)
            waiter.until(due_ns)
            yield LiveFrame(
                pixels=self.draw(frame_index),
                source=number,
                number=frame_index,
                run=0,
                pts=frame_index,
                time_base=1 / address.rate,
                arrived_ns=due_ns,
            )
        notify("ended", "ended")

    @cached_property
    def _grid(self) -> list[tuple[slice, slice]]:
        return grid_of(self._address.size)

    @cached_property
    def _background(self) -> NDArray[np.uint8]:
        """Background, wider than a frame by one period; frames are slices of it."""
        height, width = self._address.size
        seed = self._address.seed
        y, x = np.ogrid[:height, : width + _PERIOD]
        wave = np.abs((x * 2 + seed * 37) % _PERIOD - _PERIOD // 2)
        wave = wave + np.abs((y + x + seed * 101) % _PERIOD - _PERIOD // 2)
        tint = np.array(_TINTS[seed % len(_TINTS)])
        background: NDArray[np.uint8] = (wave[..., None] * tint).astype(np.uint8)
        return background
