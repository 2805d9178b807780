"""A source that needs no camera: a picture that moves, and carries the number of its frame."""

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from headrace.live.address import PatternAddress
from headrace.live.source import Event, LiveFrame
from headrace.profiling.session import Pace
from headrace.runtime.item import DroppedItem
from headrace.runtime.waitable_source import Waiter
from headrace.video.frame_barcode import DARK, LIGHT, blocks_of, grid_of

_PERIOD = 256
"""Columns after which what moves repeats."""
_COLUMNS_A_FRAME = 4
_TINTS = ((1.0, 0.55, 0.2), (0.2, 1.0, 0.55), (0.55, 0.2, 1.0), (0.9, 0.9, 0.9))


class PatternSource:
    """Frames of a test pattern, each at its moment: frame n is due n / rate seconds after the
    start, however late those before it were taken (open loop)."""

    base: Pace = "schedule"

    def __init__(self, address: PatternAddress) -> None:
        """Draw nothing yet."""
        self._address = address

    @property
    def name(self) -> str:
        """For a reader."""
        return self._address.name

    def picture(self, number: int) -> NDArray[np.uint8]:
        """Return picture `number`: uint8 [H, W, 3] in [0, 255], RGB.

        `headrace.testing.read_number` reads the number back. Costs some 1 ms for 720p.
        """
        _, width = self._address.size
        first = number * _COLUMNS_A_FRAME % _PERIOD
        picture: NDArray[np.uint8] = self._behind[:, first : first + width].copy()
        for is_light, (rows, columns) in zip(blocks_of(number), self._grid, strict=True):
            picture[rows, columns] = LIGHT if is_light else DARK
        return picture

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | DroppedItem]:
        """Yield a frame whenever one is due. See `LiveSource`."""
        address = self._address
        start_ns = waiter.clock.now_ns()
        note(Event(at_ns=start_ns, source=number, kind="joined", words="joined"))
        for place in count():
            if address.seconds is not None and place >= address.seconds * address.rate:
                break
            due_ns = start_ns + round(place * 1_000_000_000 / address.rate)
            waiter.until(due_ns)
            yield LiveFrame(
                pixels=self.picture(place),
                source=number,
                number=place,
                run=0,
                pts=place,
                time_base=1 / address.rate,
                arrived_ns=due_ns,
            )
        note(Event(at_ns=waiter.clock.now_ns(), source=number, kind="ended", words="ended"))

    @cached_property
    def _grid(self) -> list[tuple[slice, slice]]:
        return grid_of(self._address.size)

    @cached_property
    def _behind(self) -> NDArray[np.uint8]:
        """A picture that is wider by a period, to be cut out of."""
        height, width = self._address.size
        seed = self._address.seed
        y, x = np.ogrid[:height, : width + _PERIOD]
        wave = np.abs((x * 2 + seed * 37) % _PERIOD - _PERIOD // 2)
        wave = wave + np.abs((y + x + seed * 101) % _PERIOD - _PERIOD // 2)
        tint = np.array(_TINTS[seed % len(_TINTS)])
        behind: NDArray[np.uint8] = (wave[..., None] * tint).astype(np.uint8)
        return behind
