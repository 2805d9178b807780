"""Memory that goes back to the system, or is used again."""

import math
import mmap
import threading
from weakref import finalize

import numpy as np
from numpy.typing import DTypeLike, NDArray

_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
"""A process that is forked has copies, as of all other memory."""


def mapped(shape: tuple[int, ...], dtype: DTypeLike = np.uint8) -> NDArray[np.uint8]:
    """Return an array of zeros, uint8 or `dtype`, whose memory goes back to the system with it.

    The C library's own allocator keeps some 50 MB of freed batches for itself.
    """
    memory = _memory(math.prod(shape) * np.dtype(dtype).itemsize)
    found: NDArray[np.uint8] = np.frombuffer(memory, dtype).reshape(shape)
    return found


def _memory(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, **_PRIVATE)


class BatchBufferPool:
    """Memory of batches, used again once nobody has the batch any more. Thread-safe."""

    def __init__(self, most: int) -> None:
        """No memory yet.

        Args:
            most: Batches that there is memory for at a time; of those that are more, as somebody
                keeps them, none is used again.
        """
        self._most = most
        self._free: list[mmap.mmap] = []
        self._in_use = 0
        # Re-entrant: the garbage collector may give memory back while some is taken.
        self._lock = threading.RLock()

    def take(self, shape: tuple[int, ...], dtype: DTypeLike = np.uint8) -> NDArray[np.uint8]:
        """Return uint8 or `dtype` of `shape`, of any content. Its memory comes back by itself."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        with self._lock:
            self._in_use += 1
            memory = self._free.pop() if self._free else None
        if memory is None or len(memory) < size:
            memory = _memory(size)
        # What views and tensors of it keep alive is this array, not the one that is returned.
        whole = np.frombuffer(memory, np.uint8, size)
        finalize(whole, self._give, memory).atexit = False
        found: NDArray[np.uint8] = whole.view(dtype).reshape(shape)
        return found

    def _give(self, memory: mmap.mmap) -> None:
        with self._lock:
            self._in_use -= 1
            if self._in_use + len(self._free) < self._most:
                self._free.append(memory)

    def close(self) -> None:
        """Let go of what is free, and of the rest when nobody has it any more."""
        with self._lock:
            self._most = 0
            self._free.clear()
