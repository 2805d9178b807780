"""Memory-mapped arrays: unmapped when freed, or reused for the next batch."""

import math
import mmap
import threading
from weakref import finalize

import numpy as np
from numpy.typing import DTypeLike, NDArray

_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
"""A forked process gets a copy, as of other memory."""


def mmap_zeros(shape: tuple[int, ...], dtype: DTypeLike = np.uint8) -> NDArray[np.uint8]:
    """Return an array of zeros, uint8 or `dtype`, whose memory is unmapped when it is freed.

    The C library's allocator would keep some 50 MB of freed batches.
    """
    memory = mmap.mmap(-1, math.prod(shape) * np.dtype(dtype).itemsize, **_PRIVATE)
    array: NDArray[np.uint8] = np.frombuffer(memory, dtype).reshape(shape)
    return array


class BatchBufferPool:
    """Pool of batch memory, reused when a batch is garbage-collected. Thread-safe."""

    def __init__(self, max_batches: int) -> None:
        """Allocate nothing yet.

        Args:
            max_batches: Maximum number of batches, in use or free, whose memory is reused; the
                memory of further batches is unmapped.
        """
        self._max_batches = max_batches
        self._free: list[mmap.mmap] = []
        self._in_use = 0
        # Re-entrant: the garbage collector may release memory inside `acquire`.
        self._lock = threading.RLock()

    def acquire(self, shape: tuple[int, ...], dtype: DTypeLike = np.uint8) -> NDArray[np.uint8]:
        """Return an uninitialized array of `shape`, uint8 or `dtype`.

        Its memory returns to the pool when no view or tensor of it is alive.
        """
        size = math.prod(shape) * np.dtype(dtype).itemsize
        with self._lock:
            self._in_use += 1
            memory = self._free.pop() if self._free else None
        if memory is None or len(memory) < size:
            memory = mmap.mmap(-1, size, **_PRIVATE)
        # Views and tensors of the result keep this array alive, not the returned view.
        owner = np.frombuffer(memory, np.uint8, size)
        finalize(owner, self._release, memory).atexit = False
        array: NDArray[np.uint8] = owner.view(dtype).reshape(shape)
        return array

    def _release(self, memory: mmap.mmap) -> None:
        with self._lock:
            self._in_use -= 1
            if self._in_use + len(self._free) < self._max_batches:
                self._free.append(memory)

    def close(self) -> None:
        """Release free memory now, and other memory when its batches are garbage-collected."""
        with self._lock:
            self._max_batches = 0
            self._free.clear()
