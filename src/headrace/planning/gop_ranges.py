"""GOP ranges: wanted frames of consecutive GOPs for one decoder, and their batches."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.units import check_integers
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class GopRange:
    """Wanted frames of consecutive GOPs of one video, which one decoder delivers together."""

    video: int
    """Index of the video in the requested list."""
    index: StreamIndex
    """Index of the video's frames."""
    wanted: tuple[int, ...]
    """Indices of the wanted frames, strictly ascending."""


def split_ranges(
    video: int, index: StreamIndex, wanted: NDArray[np.int64], *, at_least: int = 1
) -> Iterator[GopRange]:
    """Cut `wanted` frames (int64, strictly ascending) at keyframes.

    Every GOP is decoded once, by one decoder, up to its last wanted frame. Consecutive GOPs are
    joined until a range has `at_least` frames, because each range costs a seek.
    """
    gops = np.searchsorted(index.gop_start, wanted, "right") - 1
    part: list[int] = []
    for frames in np.split(wanted, np.flatnonzero(np.diff(gops)) + 1) if len(wanted) else ():
        follows = bool(part) and index.gop_of(part[-1]) + 1 == index.gop_of(int(frames[0]))
        if part and (len(part) >= at_least or not follows):
            yield GopRange(video=video, index=index, wanted=tuple(part))
            part = []
        part += frames.tolist()
    if part:
        yield GopRange(video=video, index=index, wanted=tuple(part))


def split_video(
    video: int,
    index: StreamIndex,
    *,
    stride: int = 1,
    at_least: int = 1,
    max_frames: int | None = None,
) -> Iterator[GopRange]:
    """Cut every `stride`-th frame of a video at keyframes; only the first `max_frames`, if given.

    Raises:
        ConfigError: `stride` is below 1.
    """
    check_integers(1, stride=stride)
    wanted = np.arange(0, len(index), stride)[:max_frames]
    return split_ranges(video, index, wanted, at_least=at_least)


@dataclass(frozen=True, kw_only=True)
class BatchPart:
    """Consecutive frames of one range in one batch: one decode job."""

    batch: int
    """Index of the batch among all planned batches."""
    first: int
    """Row of the part's first frame in the batch."""
    wanted: tuple[int, ...]
    """Indices of the frames, ascending."""
    batch_frames: int
    """Frames in the whole batch."""

    @property
    def stop(self) -> int:
        """Row after the part's last frame in the batch."""
        return self.first + len(self.wanted)

    @property
    def is_last(self) -> bool:
        """Whether the part is the last of its batch."""
        return self.stop == self.batch_frames


def split_batches(
    ranges: Iterable[GopRange],
    num_frames: int,
    *,
    batch_size: int,
    max_frames: int,
    first_batch: int = 0,
) -> Iterator[tuple[GopRange, list[BatchPart]]]:
    """Yield every range with its batch parts, in order; a batch may have parts of several ranges.

    All batches have `batch_size` frames, except the last.

    Args:
        ranges: Ranges of one video, in order.
        num_frames: Frames in all ranges.
        batch_size: Frames in a batch.
        max_frames: Max frames in a part.
        first_batch: Index of the first batch.
    """
    done = 0
    for gop_range in ranges:
        parts: list[BatchPart] = []
        offset = 0
        while offset < len(gop_range.wanted):
            batch, first = divmod(done, batch_size)
            size = min(batch_size, num_frames - batch * batch_size)
            wanted = gop_range.wanted[offset : offset + min(max_frames, size - first)]
            index = first_batch + batch
            parts.append(BatchPart(batch=index, first=first, wanted=wanted, batch_frames=size))
            offset += len(wanted)
            done += len(wanted)
        yield gop_range, parts
