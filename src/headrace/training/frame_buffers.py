"""Memory for frames that are held until their batch is due."""

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from headrace.runtime.memory import mapped
from headrace.video.shape import PixelType

_FRAMES_AT_ONCE = 64


class FrameBuffers:
    """Arrays for one held frame each, used again and again. Thread-safe."""

    def __init__(self, shape: tuple[int, ...], dtype: PixelType = "uint8") -> None:
        """No array yet."""
        self.shape = shape
        """Of each array."""
        self.frame_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        self._dtype = dtype
        self._free: deque[NDArray[np.uint8]] = deque()

    def take(self) -> NDArray[np.uint8]:
        """Return an array of `shape`, of any content."""
        try:
            return self._free.pop()
        except IndexError:
            # Memory is taken page by page, as frames are written.
            slab = mapped((_FRAMES_AT_ONCE, *self.shape), self._dtype)
            self._free.extend(slab[1:])
            frame: NDArray[np.uint8] = slab[0]
            return frame

    def give(self, frame: NDArray[np.uint8]) -> None:
        """Hand back an array that nobody reads any more."""
        self._free.append(frame)

    def clear(self) -> None:
        """Let go of the arrays that nobody uses."""
        self._free.clear()
