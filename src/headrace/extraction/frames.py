"""Every frame of many videos, in order, decoded on all cores."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_decoder, open_index
from headrace.decode.protocol import (
    DecodeCounters,
    DecodeJob,
    Decoder,
    OnError,
    Stack,
    check_on_error,
)
from headrace.errors import ConfigError, DecodeError, MediaError
from headrace.planning.stretches import Stretch, in_order
from headrace.runtime.affinity import available_cores
from headrace.runtime.ordered import ordered_streams
from headrace.video.frames import FrameBatch
from headrace.video.shape import FrameShape
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

_BATCH_BYTES = 8 << 20
_BATCH_FRAMES = 32
_SHORT_STRETCH = 64
"""Frames below which a stretch is not worth the seek it costs."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """Media that was left out because it cannot be decoded."""

    video: int
    """Place of the video in the list that was asked for."""
    indices: tuple[int, ...]
    """Frames left out; empty when it is the whole video."""
    error: MediaError
    """What was wrong."""


class FrameReader:
    """Reads every frame of its videos, in order: iterate it for FrameBatch after FrameBatch.

    A batch holds up to 32 consecutive frames of one video and one size. Different stretches are
    decoded at the same time, one thread and one decoder each; they come out in the order of the
    videos whatever finishes first.
    """

    def __init__(
        self,
        videos: Sequence[Source | str | os.PathLike[str]],
        *,
        size: tuple[int, int] | None = None,
        stride: int = 1,
        workers: int | None = None,
        memory_budget: int = 1 << 30,
        on_error: OnError = "raise",
        store: IndexStore | None = None,
    ) -> None:
        """Plan the reading; nothing is opened yet.

        Args:
            videos: What to read, in this order.
            size: (height, width) of the frames; None keeps each video's own.
            stride: 1 means every frame.
            workers: Decoding threads; None means one for each core this process may use.
            memory_budget: Bytes that decoded frames may hold while they wait for their turn.
            on_error: Whether bad media ends the reading or is left out and listed in `damaged`; or,
                with `conceal`, damaged frames come as FFmpeg shows them, marked.
            store: Where indexes are kept; None means the user's cache folder.

        Raises:
            ConfigError: an argument is out of range.
        """
        check_on_error(on_error)
        if stride < 1:
            raise ConfigError(f"stride must be >= 1, got {stride}")
        self._sources = [Source.of(video) for video in videos]
        self._shape = FrameShape(size=size)
        self._stride = stride
        self._workers = len(available_cores()) if workers is None else workers
        self._memory_budget = memory_budget
        self._on_error: OnError = on_error
        self._store = store or IndexStore()
        self._costs: list[DecodeCounters] = [DecodeCounters()]
        self.damaged: list[Damage] = []
        """What was left out so far, in no particular order."""

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far, over all threads."""
        return sum(self._costs, DecodeCounters())

    def __iter__(self) -> Generator[FrameBatch, None, None]:
        """Yield the frames of every video, in order.

        Raises:
            MediaError: at the place of bad media, when `on_error` is `raise`.
            ConfigError: the memory budget is too small for one frame of each worker.
        """
        indexes = self._indexes()
        first = next(indexes, None)
        frames_per_batch, capacity = self._batching(first)
        known = indexes if first is None else chain([first], indexes)
        return ordered_streams(
            lambda: self._worker(frames_per_batch),
            self._plan(known, frames_per_batch * capacity),
            workers=self._workers,
            capacity=capacity,
            name="decode",
        )

    def _indexes(self) -> Iterator[tuple[int, StreamIndex]]:
        for video, source in enumerate(self._sources):
            try:
                yield video, open_index(source, self._store)
            except MediaError as error:
                self._note(video, (), error)

    def _plan(self, indexes: Iterator[tuple[int, StreamIndex]], most: int) -> Iterator[Stretch]:
        """Keep a video on one thread while there are others to go round, and memory for it.

        `most` is the number of frames of one stretch that may wait for their turn.
        """
        for video, index in indexes:
            share = len(index) if len(self._sources) >= self._workers else len(index) // 8
            at_least = max(_SHORT_STRETCH, min(share, most))
            yield from in_order(video, index, stride=self._stride, at_least=at_least)

    def _batching(self, first: tuple[int, StreamIndex] | None) -> tuple[int, int]:
        """Return frames per batch, and batches of one stretch that may wait."""
        upright = first[1].info.upright_size if first else (1, 1)
        height, width = self._shape.output_size(upright)
        frame_bytes = height * width * 3
        frames = max(1, min(_BATCH_FRAMES, _BATCH_BYTES // frame_bytes))
        # One stretch is delivered while `workers` more run or wait: runtime/ordered.py.
        capacity = self._memory_budget // (frames * frame_bytes * (self._workers + 1))
        if capacity < 1:
            raise ConfigError(
                f"a memory budget of {self._memory_budget} bytes does not hold {frames} frames "
                f"of {height}x{width} for each of {self._workers} workers; "
                "raise it, or ask for a smaller size or fewer workers"
            )
        return frames, capacity

    @contextmanager
    def _worker(self, frames_per_batch: int) -> Iterator[Callable[[Stretch], Iterator[FrameBatch]]]:
        """Keep one decoder open: the next stretch is likely of the same video."""
        current: Decoder | None = None

        def run(stretch: Stretch) -> Iterator[FrameBatch]:
            nonlocal current
            if current is None or current.index is not stretch.index:
                if current is not None:
                    current.close()
                current = open_decoder(stretch.index, self._shape)
                self._costs.append(current.counters)
            for at in range(0, len(stretch.wanted), frames_per_batch):
                wanted = stretch.wanted[at : at + frames_per_batch]
                yield from self._decode(current, stretch.video, wanted)

        try:
            yield run
        finally:
            if current is not None:
                current.close()

    def _decode(
        self, decoder: Decoder, video: int, wanted: tuple[int, ...]
    ) -> Iterator[FrameBatch]:
        """Yield the frames as one batch; as several where they change their size on the way."""
        while wanted:
            stack = Stack(len(wanted))
            slot = {index: k for k, index in enumerate(wanted)}
            good = np.zeros(len(wanted), np.bool_)
            left: tuple[int, ...] = ()
            try:
                job = DecodeJob(wanted, conceals=self._on_error == "conceal")
                for index, _ in decoder.run(job, stack):
                    good[slot[index]] = True
            except DecodeError as error:
                # From the first of another size on, all belong in a later batch.
                stop = min((k for k in stack.misfits if k), default=len(wanted))
                left = wanted[stop:]
                good[stop:] = False
                damaged = tuple(index for index in error.missing if index not in left)
                if damaged:
                    self._note(video, damaged, error)
            if good.any():
                yield _batch(decoder, video, np.array(wanted, np.int64), stack.frames, good)
            wanted = left

    def _note(self, video: int, indices: tuple[int, ...], error: MediaError) -> None:
        if self._on_error == "raise":
            raise error
        self.damaged.append(Damage(video=video, indices=indices, error=error))


def _batch(
    decoder: Decoder,
    video: int,
    wanted: NDArray[np.int64],
    frames: NDArray[np.uint8],
    good: NDArray[np.bool_],
) -> FrameBatch:
    if not good.all():
        frames, wanted = frames[good], wanted[good]
    return FrameBatch(
        frames=frames,
        video=video,
        index=wanted,
        pts_seconds=decoder.index.seconds_of(wanted),
        is_concealed=np.isin(wanted, list(decoder.concealed)),
    )


def read_frames(
    videos: Sequence[Source | str | os.PathLike[str]],
    *,
    size: tuple[int, int] | None = None,
    stride: int = 1,
    workers: int | None = None,
    on_error: OnError = "raise",
) -> FrameReader:
    """Return an iterable of every frame of `videos`, in order: see FrameReader.

    for batch in read_frames(["a.mp4", "b.mp4"], size=(256, 256)): ...
    """
    return FrameReader(videos, size=size, stride=stride, workers=workers, on_error=on_error)
