"""From GOP jobs to frames that are held until their batch is due."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.decode.pool import DecoderPool
from headrace.decode.protocol import DecodeCounters, DecodeJob
from headrace.errors import DecodeError, MediaError
from headrace.planning.lookahead import GopJob
from headrace.training.video_set import VideoSet
from headrace.video.shape import FrameShape


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What became of a job: each of its frames is in one of the two."""

    frames: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    """Frame id → uint8 [H, W, 3]."""
    failures: dict[int, MediaError] = field(default_factory=dict)
    """Frame id → why there is no such frame."""


class FrameBuffers:
    """Arrays for one frame each, used again and again. Thread-safe."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.shape = (*size, 3)
        """Of each array."""
        self._free: deque[NDArray[np.uint8]] = deque()

    def take(self) -> NDArray[np.uint8]:
        """Return uint8 [H, W, 3] of any content."""
        try:
            return self._free.pop()
        except IndexError:
            return np.empty(self.shape, np.uint8)

    def give(self, frame: NDArray[np.uint8]) -> None:
        """Hand back an array that nobody reads any more."""
        self._free.append(frame)


class JobDecoder:
    """Decodes GOP jobs of a video set; its workers share nothing but buffers."""

    def __init__(self, videos: VideoSet, size: tuple[int, int], *, max_open: int) -> None:
        """Open nothing yet.

        Args:
            videos: What the ids in jobs mean.
            size: (height, width) of the frames.
            max_open: Decoders, so files, that one worker keeps open.
        """
        self.buffers = FrameBuffers(size)
        """Where frames come from; give them back when they are done with."""
        self._videos = videos
        self._size = size
        self._max_open = max_open
        self._pools: list[DecoderPool] = []

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far, over all workers."""
        return sum((pool.counters for pool in tuple(self._pools)), DecodeCounters())

    def describe(self, job: object) -> str:
        """Return what a job is about, for a message."""
        if not isinstance(job, GopJob):
            return "a batch"
        video, first = self._videos.population.locate(np.array(job.frames[0]))
        source = self._videos.indexes[int(video)].source
        return f"{len(job.frames)} frames of {source} (from frame {int(first)})"

    @contextmanager
    def worker(self) -> Iterator[Callable[[GopJob], Decoded]]:
        """Give the function that decodes a job; for one thread, which it keeps decoders for."""
        with DecoderPool(FrameShape(size=self._size), self._max_open) as pool:
            self._pools.append(pool)
            yield lambda job: self._decode(pool, job)

    def _decode(self, pool: DecoderPool, job: GopJob) -> Decoded:
        population = self._videos.population
        ids = np.array(job.frames, np.int64)
        videos, indices = population.locate(ids)
        index = self._videos.indexes[videos[0]]
        left = dict(zip(indices.tolist(), job.frames, strict=True))
        out = [self.buffers.take() for _ in ids]
        done = Decoded()
        try:
            for number, pixels in pool.decoder(index).run(DecodeJob(tuple(left)), out):
                done.frames[left.pop(number)] = pixels
        except MediaError as error:
            if not isinstance(error, DecodeError):
                pool.drop(index)
            done.failures.update((frame, error) for frame in left.values())
            for frame, buffer in zip(job.frames, out, strict=True):
                if frame in done.failures:
                    self.buffers.give(buffer)
        return done
