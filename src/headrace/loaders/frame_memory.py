"""FrameMemory and BatchMemory: memory for the frames and batches of a run, on CPU or device."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch

from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.frame_outputs import device_memory
from headrace.decode.gpu.gpu_decoding import device_of
from headrace.runtime.buffer_pool import BatchBufferPool, mmap_zeros
from headrace.runtime.fork_safety import ForkSafeLock
from headrace.runtime.synchronization import CapacityLimiter
from headrace.video.frame_format import FrameFormat, PixelType

_FRAMES_AT_ONCE = 64
"""Frames of a slab, the unit in which memory is mapped."""
_BATCHES = 2
"""Batches that the budget reserves: the caller's and the next one."""


class BatchMemory:
    """Memory of batches: arrays on the CPU, or tensors on the device that decodes. Thread-safe.

    All work on the tensors runs on the device's default CUDA stream, which is that of the decoding
    threads. The thread that takes batches may use another stream, which waits for it. PyTorch pools
    the memory of freed tensors itself.
    """

    def __init__(self, decoding: DecoderConfig, max_reused: int) -> None:
        """Allocate nothing yet; the memory of up to `max_reused` batches of arrays is reused."""
        self.device = device_of(decoding) if decoding.keeps_on_device else None
        """Device of the tensors; None for arrays."""
        self.is_cuda = self.device is not None and torch.device(self.device).type == "cuda"
        self._arrays = BatchBufferPool(max_reused)

    def take(self, shape: tuple[int, ...], dtype: PixelType = "uint8") -> Any:
        """Return memory of `shape`, of any content; tensors are uint8.

        Raises:
            BackendError: the device has no memory left.
        """
        if self.device is not None:
            return device_memory(shape, self.device)
        return self._arrays.acquire(shape, dtype)

    def black(self, size: tuple[int, int]) -> Any:
        """Return a black frame, uint8 [height, width, 3], in memory of its own. Raises likewise."""
        if self.device is not None:
            return device_memory((*size, 3), self.device).zero_()
        return mmap_zeros((*size, 3)) if all(size) else np.zeros((*size, 3), np.uint8)

    def hand_over(self, frames: Any) -> None:
        """Make the frames of a batch, or lists of them, ready for this thread's CUDA stream."""
        if not self.is_cuda:
            return
        current = torch.cuda.current_stream(self.device)
        default = torch.cuda.default_stream(self.device)
        if current == default:
            return
        current.wait_stream(default)
        for tensor in [frames] if isinstance(frames, torch.Tensor) else chain(*frames):
            # Otherwise PyTorch reuses its memory before this stream has read it.
            tensor.record_stream(current)

    def close(self) -> None:
        """Free unused memory, and the rest when the batches are freed."""
        self._arrays.close()


class BatchRoom:
    """Room for batches that are filled ahead: reserved for the next one, acquired for later ones.

    One thread acquires, in the order of the batches, and another delivers them.
    """

    def __init__(self, room: CapacityLimiter) -> None:
        """Acquire nothing yet."""
        self._room = room
        self._num_delivered = 0
        self._acquired: dict[int, int] = {}
        self._lock = ForkSafeLock()

    def is_next(self, number: int) -> bool:
        """Return whether a batch is the next to deliver, or was delivered."""
        return self._num_delivered >= number

    def acquire(self, number: int, num_bytes: int) -> None:
        """Wait until there is room for a batch, or it is the next one."""
        permits = min(num_bytes, self._room.capacity)
        acquired = self._room.acquire(permits, partial(self.is_next, number), if_urgent=0)
        with self._lock:
            self._acquired[number] = acquired
            self._release_next()

    def deliver(self) -> None:
        """Count the next batch as delivered: the memory of the one after it is reserved now."""
        with self._lock:
            self._num_delivered += 1
            self._release_next()

    def _release_next(self) -> None:
        self._room.release(self._acquired.pop(self._num_delivered, 0))


def start_of(pixels: Any, shape: FrameFormat) -> Any:
    """Return the start of each frame's memory, [..., H, W, 3], as a format that needs less of it.

    The dtype is that of the format.
    """
    assert shape.size is not None
    wanted = shape.array_shape(shape.size)
    if pixels.shape == wanted:
        return pixels
    several = pixels.shape[:-3]
    flat = pixels.reshape(*several, -1)[..., : shape.frame_bytes(shape.size) // pixels.itemsize]
    if shape.layout == "gray12":
        flat = flat.view(shape.dtype)
    return flat.reshape(*several, *wanted)


class FrameMemory:
    """Memory of the frames of a run that wait for their batch, and of its batches.

    Frames are arrays on the CPU, or tensors on the device that decodes. Thread-safe, except for
    batches.
    """

    def __init__(self, shape: FrameFormat, decoding: DecoderConfig = ON_CPU) -> None:
        """Take no memory yet; `shape` is the format of frames that wait, with a size."""
        assert shape.size is not None
        self.shape = shape
        self.frame_bytes = shape.frame_bytes(shape.size)
        """Bytes of a frame that waits."""
        self._frame_shape = shape.array_shape(shape.size)
        self._free: deque[Any] = deque()
        self._batches = BatchMemory(decoding, _BATCHES)

    def take(self) -> Any:
        """Return memory for a frame, in the layout of the format; its content is undefined.

        Raises:
            BackendError: the device has no memory left.
        """
        if self._batches.device is not None:
            return self._batches.take(self._frame_shape)
        try:
            return self._free.pop()
        except IndexError:
            # The system provides memory page by page, when frames are written.
            slab = mmap_zeros((_FRAMES_AT_ONCE, *self._frame_shape), self.shape.dtype)
            self._free.extend(slab[1:])
            return slab[0]

    def give(self, frame: Any) -> None:
        """Release memory of a frame; it must not be read any more."""
        if self._batches.device is None:  # PyTorch pools that of tensors
            self._free.append(frame)

    def rows(self, shape: tuple[int, ...]) -> Any:
        """Return memory of `shape` for a batch, an array; it returns to the pool as garbage."""
        return self._batches.take(shape, self.shape.dtype)

    @contextmanager
    def batch(self, shape: tuple[int, ...]) -> Iterator[Any]:
        """Provide memory of `shape` for a batch, which this thread fills inside the `with` block.

        After the block, the batch is ready for this thread. Memory of arrays returns to the pool
        when they are garbage-collected. Raises as `take` does.
        """
        is_cuda, device = self._batches.is_cuda, self._batches.device
        default = torch.cuda.stream(torch.cuda.default_stream(device)) if is_cuda else nullcontext()
        with default:
            pixels = self._batches.take(shape, self.shape.dtype)
            yield pixels
        self._batches.hand_over(pixels)

    def trim(self) -> None:
        """Free unused memory of frames."""
        self._free.clear()

    def close(self) -> None:
        """Free unused memory now, and the rest when its last reference is gone."""
        self.trim()
        self._batches.close()
