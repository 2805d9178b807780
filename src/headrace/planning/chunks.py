"""Units of decode work, cut from a video at keyframes: GOP ranges, batch parts, chunks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.units import check_integers
from headrace.video.stream_index import StreamIndex

_SEEK: Final = 2.0
"""Cost of a seek with a new codec, in decoded frames."""
_MAX_OVERHEAD: Final = 1 / 8
"""Approximate max share of a GOP's cost that cutting adds, because frames are decoded again."""


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


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Wanted frames of one video that one worker processes together."""

    video: int
    """Index of the video in the requested list."""
    start: int
    stop: int
    """Indices of its wanted frames are in [start, stop)."""
    frames: int
    """Number of wanted frames, or of clips that start in the chunk."""
    decoded: int = 0
    """Number of frames to decode for the wanted frames; 0: unknown."""
    cost: float = 0.0
    """Estimated cost, in decoded pixels."""

    @property
    def name(self) -> str:
        """Name made of video and frame range; the same in later runs."""
        return f"{self.video:05d}-{self.start:08d}-{self.stop:08d}"

    def of(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the chunk's frames among the video's wanted ones: int64, ascending."""
        first, end = np.searchsorted(wanted, (self.start, self.stop))
        return wanted[first:end]


def chunks_of(
    video: int,
    index: StreamIndex,
    wanted: NDArray[np.int64],
    *,
    frame_cost: float,
    max_cost: float,
) -> list[Chunk]:
    """Cut a video into chunks of about equal cost, at keyframes where possible.

    Each GOP is decoded once, up to its last wanted frame. A GOP is cut only if it costs as much as
    several chunks, mostly for work after decoding. Each piece then decodes the GOP from its
    keyframe; all pieces together cost at most about an eighth more. The borders depend only on the
    arguments, not on the number of workers, so a later run has the same chunks.

    Args:
        video: Index of the video in the requested list.
        index: Index of the video's frames.
        wanted: Wanted frames: int64, strictly ascending.
        frame_cost: Cost of a wanted frame after decoding, in decoded pixels.
        max_cost: Max cost of a chunk, in decoded pixels; exceeded by a GOP whose cost is mostly
            decoding.
    """
    if not len(wanted):
        return []
    gops = _Gops.of(index, wanted, frame_cost)
    num_gops = len(gops.first)
    cut = np.flatnonzero([gops.num_pieces(gop, max_cost) > 1 for gop in range(num_gops)])
    parts: list[_Part] = []
    done = 0
    for gop in (*cut.tolist(), num_gops):
        if done < gop:
            parts += gops.group(slice(done, gop), max_cost)
        if gop < num_gops:
            parts += gops.cut(gop, gops.num_pieces(gop, max_cost))
        done = gop + 1
    return [
        Chunk(
            video=video,
            start=int(wanted[part.first]),
            stop=int(wanted[part.last]) + 1,
            frames=part.last - part.first + 1,
            decoded=part.decoded,
            cost=part.cost,
        )
        for part in parts
    ]


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Consecutive wanted frames: first and last position among the wanted frames."""

    first: int
    last: int
    decoded: int
    cost: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Gops:
    """Costs of the GOPs with wanted frames; arrays are [GOPs], unless noted."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    """Positions of each GOP's first and last wanted frame among the wanted frames."""
    keyframe: NDArray[np.int64]
    decoded: NDArray[np.int64]
    wanted: NDArray[np.int64]
    """[frames]: indices of the wanted frames of all GOPs."""
    pixels: float
    """Pixels of a decoded frame."""
    frame_cost: float

    @classmethod
    def of(cls, index: StreamIndex, wanted: NDArray[np.int64], frame_cost: float) -> "_Gops":
        gops = np.searchsorted(index.gop_start, wanted, "right") - 1
        first = np.flatnonzero(np.diff(gops, prepend=-1))
        last = np.append(first[1:], len(wanted)) - 1
        keyframe = index.gop_start[gops[first]]
        height, width = index.info.upright_size
        return cls(
            first=first,
            last=last,
            keyframe=keyframe,
            decoded=wanted[last] - keyframe + 1,
            wanted=wanted,
            pixels=float(height * width),
            frame_cost=frame_cost,
        )

    @cached_property
    def costs(self) -> NDArray[np.float64]:
        frames = self.last - self.first + 1
        return (self.decoded + _SEEK) * self.pixels + frames * self.frame_cost

    def num_pieces(self, gop: int, max_cost: float) -> int:
        """Return the number of pieces of a GOP; each is decoded from the GOP's keyframe.

        Each piece after the first adds a seek and, on average, half of the GOP's decoding cost.
        """
        cost = float(self.costs[gop])
        added = float((self.decoded[gop] / 2 + _SEEK) * self.pixels)
        frames = int(self.last[gop] - self.first[gop]) + 1
        return max(1, min(frames, round(cost / max_cost), 1 + int(_MAX_OVERHEAD * cost / added)))

    def cut(self, gop: int, pieces: int) -> Iterator[_Part]:
        """Yield pieces of equal cost: later pieces decode more frames, and have fewer wanted ones.

        With the decoding cost D and the other cost E of the GOP, and r = E / (D + E), piece k ends
        at (1 - r ** k) / (1 - r ** pieces) of its wanted frames.
        """
        decoding = self.decoded[gop] * self.pixels
        ratio = 1 - decoding / self.costs[gop]
        ends = (1 - ratio ** np.arange(pieces + 1)) / (1 - ratio**pieces)
        first, frames = int(self.first[gop]), int(self.last[gop] - self.first[gop]) + 1
        borders = np.unique(first + (ends * frames).round().astype(int))
        for start, end in pairwise(borders.tolist()):
            decoded = int(self.wanted[end - 1] - self.keyframe[gop]) + 1
            cost = (decoded + _SEEK) * self.pixels + (end - start) * self.frame_cost
            yield _Part(first=start, last=end - 1, decoded=decoded, cost=cost)

    def group(self, gops: slice, max_cost: float) -> Iterator[_Part]:
        """Yield groups of consecutive GOPs of about equal cost."""
        cost = self.costs[gops]
        total = float(cost.sum())
        pieces = max(1, min(len(cost), round(total / max_cost)))
        piece = np.minimum(pieces - 1, ((np.cumsum(cost) - cost / 2) / total * pieces).astype(int))
        borders = np.flatnonzero(np.diff(piece, prepend=-1))
        for start, end in zip(borders, np.append(borders[1:], len(cost)), strict=True):
            yield _Part(
                first=int(self.first[gops][start]),
                last=int(self.last[gops][end - 1]),
                decoded=int(self.decoded[gops][start:end].sum()),
                cost=float(cost[start:end].sum()),
            )
