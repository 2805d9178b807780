"""Live frames without a source."""

from fractions import Fraction

import numpy as np

from headrace.live.live_source import LiveFrame
from headrace.runtime.stage import Item, Span


def frame(
    number: int, *, source: int = 0, run: int = 0, arrived_ns: int = 0, height: int = 4, segment=0
):
    """Return a grey frame whose brightness is its number."""
    return LiveFrame(
        pixels=np.full((height, 4, 3), number % 256, np.uint8),
        source=source,
        number=number,
        run=run,
        segment=segment,
        pts=number,
        time_base=Fraction(1, 30),
        arrived_ns=arrived_ns,
    )


def item(index: int, value: LiveFrame) -> Item[LiveFrame]:
    """Return the item of a frame, as a source yields it."""
    return Item(index, value, (Span("decode", 0, 0),), value.source)
