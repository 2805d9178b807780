"""Storage of decoded frames: memory of frames and batches, on CPU or device, and disk."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch

from headrace.cache.spill_store import SpillStore
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.exact_planes import PlanesSample
from headrace.decode.frame_outputs import device_memory
from headrace.decode.gpu.gpu_decoding import device_of
from headrace.decode.packing import Packing
from headrace.decode.spilled_decoder import SpillWriter, packing_of, spill_key
from headrace.errors import MediaError
from headrace.loaders.video_set import VideoSet
from headrace.planning.lookahead import GopJob
from headrace.runtime.buffer_pool import BatchBufferPool, mmap_zeros
from headrace.runtime.fork_safety import ForkSafeLock
from headrace.runtime.synchronization import CapacityLimiter
from headrace.video.frame_format import FrameFormat, PixelType

_FRAMES_AT_ONCE = 64
"""Frames in a slab, the unit of memory mapping."""
_BATCHES = 2
"""Batches reserved in the budget: the caller's and the next one."""
_UNSTORED_BATCHES = 1
"""Number of first batches whose jobs store nothing, so that they do not wait for whole GOPs."""


class BatchMemory:
    """Memory of batches: arrays on the CPU, or tensors on the device that decodes. Thread-safe.

    The decoding threads work on the tensors on the device's default CUDA stream. The iterating
    thread may use another stream, which waits for the default one. PyTorch itself pools the memory
    of freed tensors.
    """

    def __init__(self, decoding: DecoderConfig, max_reused: int) -> None:
        """Allocate nothing yet. The memory of up to `max_reused` batches of arrays is reused."""
        self.device = device_of(decoding) if decoding.keeps_on_device else None
        """Device of the tensors; None for arrays."""
        self.is_cuda = self.device is not None and torch.device(self.device).type == "cuda"
        self._arrays = BatchBufferPool(max_reused)

    def take(self, shape: tuple[int, ...], dtype: PixelType = "uint8") -> Any:
        """Return uninitialized memory of `shape`; tensors are uint8.

        Raises:
            BackendError: the device is out of memory.
        """
        if self.device is not None:
            return device_memory(shape, self.device)
        return self._arrays.acquire(shape, dtype)

    def black(self, size: tuple[int, int]) -> Any:
        """Return a black frame, uint8 [height, width, 3], in its own memory; raises as `take`."""
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
            # Otherwise PyTorch could reuse the memory before this stream has read it.
            tensor.record_stream(current)

    def close(self) -> None:
        """Free unused memory now; the rest is freed with the batches."""
        self._arrays.close()


class BatchRoom:
    """Permits for batches that are filled ahead.

    The memory of the next batch is reserved in the budget; later batches need permits. One thread
    acquires them, in the order of the batches, and another thread delivers the batches.
    """

    def __init__(self, limiter: CapacityLimiter) -> None:
        self._limiter = limiter
        self._num_delivered = 0
        self._acquired: dict[int, int] = {}
        """Number of a batch → its permits, in bytes."""
        self._lock = ForkSafeLock()

    def is_next(self, number: int) -> bool:
        """Return whether a batch is the next to be delivered, or was delivered."""
        return self._num_delivered >= number

    def acquire(self, number: int, num_bytes: int) -> None:
        """Wait for the permits of a batch; the next batch needs none."""
        permits = min(num_bytes, self._limiter.capacity)
        acquired = self._limiter.acquire(permits, partial(self.is_next, number), if_urgent=0)
        with self._lock:
            self._acquired[number] = acquired
            self._release_next()

    def deliver(self) -> None:
        """Count the next batch as delivered, and release the permits of the batch after it."""
        with self._lock:
            self._num_delivered += 1
            self._release_next()

    def _release_next(self) -> None:
        self._limiter.release(self._acquired.pop(self._num_delivered, 0))


def view_as_format(pixels: Any, shape: FrameFormat) -> Any:
    """View the start of each frame's memory, [..., H, W, 3], as a format that needs less memory.

    Shape and dtype are the format's.
    """
    assert shape.size is not None
    frame_shape = shape.array_shape(shape.size)
    if pixels.shape == frame_shape:
        return pixels
    batch_shape = pixels.shape[:-3]
    flat = pixels.reshape(*batch_shape, -1)[..., : shape.frame_bytes(shape.size) // pixels.itemsize]
    if shape.layout == "gray12":
        flat = flat.view(shape.dtype)
    return flat.reshape(*batch_shape, *frame_shape)


@dataclass(kw_only=True)
class Decoded:
    """Result of a job: each of its view ids is in `frames`, `packed` or `failures`."""

    frames: dict[int, Any] = field(default_factory=dict)
    """View id → pixels, in the layout of the memory's format."""
    packed: dict[int, bytes] = field(default_factory=dict)
    """View id → packed pixels."""
    failures: dict[int, MediaError] = field(default_factory=dict)
    """View id → error."""
    concealed: set[int] = field(default_factory=set)
    """View ids of frames that are damaged and concealed by FFmpeg."""
    sample: PlanesSample | None = None
    """Exact planes of the first frame, timed; None: not requested."""


@dataclass(kw_only=True, eq=False)
class DecodeTask:
    """A decode job and its packed frames, which live until the last one is delivered."""

    job: GopJob
    packing: Packing | None
    """Codec of the frames of later batches; None: they wait as pixels."""
    permits: int
    """Bytes reserved for its frames."""
    packed: dict[int, bytes] = field(default_factory=dict)
    """View id → packed pixels, for frames that later batches need."""
    is_done: bool = False
    _deferred: dict["UnpackTask", list["PackedFrame"]] = field(default_factory=dict)
    _lock: ForkSafeLock = field(default_factory=ForkSafeLock)

    def finish(self) -> dict["UnpackTask", list["PackedFrame"]]:
        """Mark the job as done; remove and return the frames that were deferred.

        The job outlives their batches, so it must not reference them.
        """
        with self._lock:
            self.is_done = True
            deferred, self._deferred = self._deferred, {}
            return deferred

    def defer(self, task: "UnpackTask", frame: "PackedFrame") -> bool:
        """Defer a frame until the job is done; return False if it is done already."""
        with self._lock:
            if not self.is_done:
                self._deferred.setdefault(task, []).append(frame)
            return not self.is_done


@dataclass(frozen=True, kw_only=True)
class PackedFrame:
    """One packed frame."""

    frame: int
    """View id."""
    source: DecodeTask | None
    """Job that decodes it; None: it is on the disk."""
    after: DecodeTask | None
    """Job that must be done before the frame can be unpacked; None: it can be now."""


@dataclass(kw_only=True, eq=False)
class UnpackTask:
    """Packed frames of a batch, in memory or on the disk."""

    frames: list[PackedFrame]
    rows: dict[int, int]
    """View id → its row in the batch, for frames that are written there."""
    pixels: Any
    """[rows, H, W, 3]: memory of the batch."""
    decoded: Decoded = field(default_factory=Decoded)
    """Frames that were missing on the disk, decoded again."""


class FrameMemory:
    """Memory of a run: of frames that wait for their batch, and of batches.

    Frames are arrays on the CPU, or tensors on the device that decodes. Thread-safe, except for
    batches.
    """

    def __init__(self, shape: FrameFormat, decoding: DecoderConfig = ON_CPU) -> None:
        """Allocate nothing yet; `shape` is the format of waiting frames, with a size."""
        assert shape.size is not None
        self.shape = shape
        self.frame_bytes = shape.frame_bytes(shape.size)
        """Bytes of a waiting frame."""
        self._frame_shape = shape.array_shape(shape.size)
        self._free: deque[Any] = deque()
        self._batches = BatchMemory(decoding, _BATCHES)

    def take(self) -> Any:
        """Return uninitialized memory for a frame, in the layout of the format.

        Raises:
            BackendError: the device is out of memory.
        """
        if self._batches.device is not None:
            return self._batches.take(self._frame_shape)
        try:
            return self._free.pop()
        except IndexError:
            # The system allocates pages when frames are written.
            slab = mmap_zeros((_FRAMES_AT_ONCE, *self._frame_shape), self.shape.dtype)
            self._free.extend(slab[1:])
            return slab[0]

    def give(self, frame: Any) -> None:
        """Return the memory of a frame, which must not be used afterwards, to the pool."""
        if self._batches.device is None:  # PyTorch pools the memory of tensors
            self._free.append(frame)

    def rows(self, shape: tuple[int, ...]) -> Any:
        """Return an array of `shape` for a batch; its memory is reused once it is garbage."""
        return self._batches.take(shape, self.shape.dtype)

    @contextmanager
    def batch(self, shape: tuple[int, ...]) -> Iterator[Any]:
        """Provide memory of `shape` for a batch, which this thread fills inside the `with` block.

        After the block, the batch is ready for this thread's CUDA stream. The memory of an array is
        reused once it is garbage. Raises as `take`.
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
        """Free unused memory now; the rest is freed with its last reference."""
        self.trim()
        self._batches.close()


@dataclass(kw_only=True, eq=False)
class Spill:
    """Frames of a video set in a store that other loaders may share. Thread-safe.

    For the planner, `has` returns which frames need not be decoded, `plan` which GOPs to store.
    """

    store: SpillStore
    videos: VideoSet
    """Videos of the loader."""
    shapes: Sequence[FrameFormat]
    """Format of each video's frames."""
    decoding: DecoderConfig
    """Decoder of the frames; the pixels of other decoders may differ."""
    _streams: dict[int, str] = field(default_factory=dict)
    _lock: ForkSafeLock = field(default_factory=ForkSafeLock)

    def __post_init__(self) -> None:
        self.packing = packing_of(self.shapes[0])
        """Codec of all its frames in the store."""
        self._unstored_batches = _UNSTORED_BATCHES
        self._population = self.videos.decoded_population
        self._is_stored = np.zeros(self._population.num_frames, np.bool_)

    def has(self, frame: int) -> bool:
        """Return whether a frame is stored, or a planned job will store it."""
        frame %= self._population.num_frames
        video = self._video_of(frame)
        self._stream(video)
        return bool(self._is_stored[frame])

    def unstored_batches(self) -> int:
        """Return the number of a run's first batches that store nothing; 0 after the first run."""
        unstored, self._unstored_batches = self._unstored_batches, 0
        return unstored

    def plan(self, gop: int) -> bool:
        """Return whether the next job should decode this GOP as a whole, and store it."""
        start, stop = self._population.gop_start[gop : gop + 2].tolist()
        if not (self.store.takes_frames and self._stream(self._video_of(start))):
            return False
        self._is_stored[start:stop] = True
        return True

    def unstored(self, video: int, gop: int) -> list[int]:
        """Return the frames of a GOP that are not stored, as indices in the video."""
        start, stop = (self._population.gop_start[gop : gop + 2] - self._first(video)).tolist()
        is_stored = self.store.stored(self._stream(video), stop)[start:stop]
        return [start + frame for frame in np.flatnonzero(~is_stored).tolist()]

    def read(self, frame: int) -> bytes | None:
        """Return a packed frame; None: it is not stored, or damaged."""
        frame %= self._population.num_frames
        video = self._video_of(frame)
        packed = self.store.read(self._stream(video), frame - self._first(video))
        if packed is None:
            # Other frames of the video may be missing as well.
            first, stop = self._population.video_start[video : video + 2].tolist()
            self._is_stored[first:stop] = self.store.stored(self._stream(video), stop - first)
        return packed

    def forget(self, frame: int) -> None:
        """Mark a frame as not stored, because it cannot be unpacked."""
        self._is_stored[frame % self._population.num_frames] = False

    def writer(self, video: int) -> SpillWriter:
        """Return a writer for frames of a video."""
        return SpillWriter(self.store, self._stream(video))

    def _video_of(self, frame: int) -> int:
        return int(np.searchsorted(self._population.video_start, frame, side="right")) - 1

    def _first(self, video: int) -> int:
        return int(self._population.video_start[video])

    def _stream(self, video: int) -> str:
        """Return the key of a video's frames; empty: they are never stored (proxies)."""
        with self._lock:
            if video not in self._streams:
                index, shape = self.videos.indexes[video], self.shapes[video]
                self._streams[video] = key = spill_key(index, shape, self.decoding)
                if key:
                    first, stop = self._population.video_start[video : video + 2].tolist()
                    self._is_stored[first:stop] |= self.store.stored(key, stop - first)
            return self._streams[video]
