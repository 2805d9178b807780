"""How decoded frames are held until their batch is due: as they are, or in half the bytes."""

from collections import deque
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.decode.yuv420 import Yuv420

Hold = Literal["rgb", "yuv420"]
"""`rgb` keeps each pixel; `yuv420` holds twice as many frames in the same memory, and delivers each
with colour at half the resolution, whatever the plan."""


class FrameBuffers:
    """Arrays for one held frame each, used again and again. Thread-safe."""

    def __init__(self, size: tuple[int, int], hold: Hold) -> None:
        """No array yet.

        Raises:
            ConfigError: frames of this (height, width) cannot be held so.
        """
        self.is_packed = hold == "yuv420"
        self.shape = Yuv420.packed_shape(size) if self.is_packed else (*size, 3)
        """Of each array."""
        self.frame_bytes = int(np.prod(self.shape))
        self._free: deque[NDArray[np.uint8]] = deque()

    def take(self) -> NDArray[np.uint8]:
        """Return uint8 of `shape`, of any content."""
        try:
            return self._free.pop()
        except IndexError:
            return np.empty(self.shape, np.uint8)

    def give(self, frame: NDArray[np.uint8]) -> None:
        """Hand back an array that nobody reads any more."""
        self._free.append(frame)
