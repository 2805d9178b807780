"""Where the frames of one job go when they have come, and which could not be converted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from av.video.frame import VideoFrame
from numpy.typing import NDArray

from headrace.decode.convert import FrameConverter
from headrace.decode.protocol import Out, Stack
from headrace.errors import DecodeError


class Conversion:
    """Converts the frames of one job into their places. A frame may come again: the last counts."""

    def __init__(self, converter: FrameConverter, wanted: Sequence[int], out: Out | None) -> None:
        """Convert nothing yet; without `out` each frame becomes an array of its own."""
        self._converter = converter
        self._slots = {number: slot for slot, number in enumerate(wanted)}
        self._out = out
        self.refused: dict[int, DecodeError] = {}
        """Frames that could not be converted, and why."""

    def pixels(self, number: int, frame: VideoFrame) -> NDArray[np.uint8] | None:
        """Return a frame converted, in its place; None if it cannot be, and a note in `refused`."""
        slot, out = self._slots[number], self._out
        try:
            if isinstance(out, Stack):
                place: NDArray[np.uint8] | None = out.place(slot, self._converter.shape_of(frame))
            else:
                place = None if out is None else out[slot]
            pixels = self._converter.convert(frame, place)
        except DecodeError as error:
            self.refused[number] = error
            return None
        self.refused.pop(number, None)
        return pixels
