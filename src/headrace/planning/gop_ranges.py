"""From wanted frames of one video to stretches that one decoder delivers in one go."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.units import check_integers
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class GopRange:
    """Wanted frames of one video that one decoder delivers in one go."""

    video: int
    """Place of the video in the list that was asked for."""
    index: StreamIndex
    """The frames of that video."""
    wanted: tuple[int, ...]
    """Indices of the frames, ascending, none twice."""


def stretches(
    video: int, index: StreamIndex, wanted: NDArray[np.int64], *, at_least: int = 1
) -> Iterator[GopRange]:
    """Cut `wanted` (int64, ascending, none twice) at keyframes.

    Every GOP is decoded by one decoder, once, and no further than its last wanted frame. GOPs that
    follow each other stay together until `at_least` frames are: short jobs cost a seek each.
    """
    gops = np.searchsorted(index.gop_start, wanted, "right") - 1
    part: list[int] = []
    for gop, frames in _by_gop(gops, wanted):
        follows = bool(part) and index.gop_of(part[-1]) + 1 == gop
        if part and (len(part) >= at_least or not follows):
            yield GopRange(video=video, index=index, wanted=tuple(part))
            part = []
        part += frames
    if part:
        yield GopRange(video=video, index=index, wanted=tuple(part))


def in_order(
    video: int, index: StreamIndex, *, stride: int = 1, at_least: int = 1, most: int | None = None
) -> Iterator[GopRange]:
    """Plan every `stride`-th frame of one video, in order; only the first `most` if it is given.

    Raises:
        ConfigError: `stride` is below 1.
    """
    check_integers(1, stride=stride)
    return stretches(video, index, np.arange(0, len(index), stride)[:most], at_least=at_least)


def _by_gop(gops: NDArray[np.int64], wanted: NDArray[np.int64]) -> Iterator[tuple[int, list[int]]]:
    borders = np.flatnonzero(np.diff(gops)) + 1
    for part in np.split(np.arange(len(wanted)), borders):
        if len(part):
            yield int(gops[part[0]]), wanted[part].tolist()


@dataclass(frozen=True, kw_only=True)
class BatchPart:
    """Frames of one stretch that stand in one batch, one after the other: one decode job."""

    batch: int
    """Number of the batch among all that are planned."""
    first: int
    """Place of the first of these frames in the batch."""
    wanted: tuple[int, ...]
    """Indices of the frames, ascending."""
    batch_frames: int
    """Frames in the whole batch."""

    @property
    def stop(self) -> int:
        """Place behind the last of these frames in the batch."""
        return self.first + len(self.wanted)

    @property
    def is_last(self) -> bool:
        """Whether the batch is full with it."""
        return self.stop == self.batch_frames


def batch_parts(
    stretches: Iterable[GopRange],
    num_frames: int,
    *,
    batch_size: int,
    most: int,
    first_batch: int = 0,
) -> Iterator[tuple[GopRange, list[BatchPart]]]:
    """Yield every stretch with its parts, in order; a batch may have parts of several stretches.

    All batches have `batch_size` frames, but for the last.

    Args:
        stretches: Of one video, in order.
        num_frames: Frames in all of them.
        batch_size: Frames in a batch.
        most: Frames in a part, at most.
        first_batch: Number of the first batch.
    """
    place = 0
    for stretch in stretches:
        parts: list[BatchPart] = []
        at = 0
        while at < len(stretch.wanted):
            batch, first = divmod(place, batch_size)
            size = min(batch_size, num_frames - batch * batch_size)
            wanted = stretch.wanted[at : at + min(most, size - first)]
            number = first_batch + batch
            parts.append(BatchPart(batch=number, first=first, wanted=wanted, batch_frames=size))
            at += len(wanted)
            place += len(wanted)
        yield stretch, parts
