"""Chunks: a video cut at keyframes into pieces of about equal cost, each done whole or not."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.video.stream_index import StreamIndex

_SEEK: Final = 2.0
"""Frames that might be decoded in the time of a seek: it also makes a codec anew."""
_AGAIN: Final = 1 / 8
"""Of the cost of a GOP, that decoding parts of it again may add, about, where it is cut."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Wanted frames of one video that one worker does in one go."""

    video: int
    """Place of the video in the list that was asked for."""
    start: int
    stop: int
    """It is for the wanted frames whose index is in [start, stop)."""
    frames: int
    """How many these are; of clips, how many begin there."""
    decoded: int = 0
    """Frames that are decoded for them; 0: not known."""
    cost: float = 0.0
    """Pixels that are decoded, or might be in the same time: an estimate."""

    @property
    def name(self) -> str:
        """What it is known by, in this and in later runs: by its frames, however cut."""
        return f"{self.video:05d}-{self.start:08d}-{self.stop:08d}"

    def of(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the wanted frames of its video, int64, ascending, that it is for."""
        first, end = np.searchsorted(wanted, (self.start, self.stop))
        return wanted[first:end]


def chunks_of(
    video: int,
    index: StreamIndex,
    wanted: NDArray[np.int64],
    *,
    frame_cost: float,
    most: float,
) -> list[Chunk]:
    """Cut a video into chunks of about equal cost, at keyframes where it has enough of them.

    Of each GOP, what lies up to its last wanted frame is decoded, once. Only one that costs
    several chunks, most of it behind the decoder, is cut inside: each piece decodes the GOP from
    its keyframe on, and there are as many as make it about an eighth dearer at most. The borders
    follow from the arguments alone, never from the number of workers, so that a later run has the
    same chunks.

    Args:
        video: Place of the video in the list that was asked for.
        index: Its frames.
        wanted: int64, ascending, none twice.
        frame_cost: What is done with a wanted frame once it is decoded, in pixels that might be
            decoded in the same time.
        most: What a chunk should cost, in pixels; a GOP that is mostly decoded may cost more.
    """
    if not len(wanted):
        return []
    parts = _Parts.of(index, wanted, frame_cost)
    cut = np.flatnonzero([parts.pieces(gop, most) > 1 for gop in range(len(parts.first))])
    found: list[_Part] = []
    done = 0
    for gop in (*cut.tolist(), len(parts.first)):
        if done < gop:
            found += parts.grouped(slice(done, gop), most)
        if gop < len(parts.first):
            found += parts.cut(gop, parts.pieces(gop, most))
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
        for part in found
    ]


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Wanted frames that follow each other: places in the list of them, the last included."""

    first: int
    last: int
    decoded: int
    cost: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Parts:
    """What the GOPs that hold wanted frames cost; each array has a value for each of them."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    """Places of its wanted frames in the list of them."""
    keyframe: NDArray[np.int64]
    decoded: NDArray[np.int64]
    wanted: NDArray[np.int64]
    """Of all GOPs."""
    pixels: float
    """Of a frame that is decoded."""
    frame_cost: float

    @classmethod
    def of(cls, index: StreamIndex, wanted: NDArray[np.int64], frame_cost: float) -> "_Parts":
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

    def pieces(self, gop: int, most: float) -> int:
        """Return how many chunks a GOP is worth: each decodes it from its keyframe on.

        Each but the first adds a seek and half of its decoding, on average.
        """
        cost = float(self.costs[gop])
        added = float((self.decoded[gop] / 2 + _SEEK) * self.pixels)
        frames = int(self.last[gop] - self.first[gop]) + 1
        return max(1, min(frames, round(cost / most), 1 + int(_AGAIN * cost / added)))

    def cut(self, gop: int, pieces: int) -> Iterator[_Part]:
        """Cut a GOP where the pieces cost the same: later ones decode more, and have less left.

        With decoding D and the rest E of the GOP, and r = E / (D + E), the piece number k ends at
        (1 - r ** k) / (1 - r ** pieces) of its frames.
        """
        decoding = self.decoded[gop] * self.pixels
        ratio = 1 - decoding / self.costs[gop]
        ends = (1 - ratio ** np.arange(pieces + 1)) / (1 - ratio**pieces)
        first, frames = int(self.first[gop]), int(self.last[gop] - self.first[gop]) + 1
        places = np.unique(first + (ends * frames).round().astype(int))
        for begin, end in pairwise(places.tolist()):
            decoded = int(self.wanted[end - 1] - self.keyframe[gop]) + 1
            cost = (decoded + _SEEK) * self.pixels + (end - begin) * self.frame_cost
            yield _Part(first=begin, last=end - 1, decoded=decoded, cost=cost)

    def grouped(self, gops: slice, most: float) -> Iterator[_Part]:
        """Join GOPs that follow each other to parts of about equal cost."""
        cost = self.costs[gops]
        total = float(cost.sum())
        pieces = max(1, min(len(cost), round(total / most)))
        piece = np.minimum(pieces - 1, ((np.cumsum(cost) - cost / 2) / total * pieces).astype(int))
        borders = np.flatnonzero(np.diff(piece, prepend=-1))
        for begin, end in zip(borders, np.append(borders[1:], len(cost)), strict=True):
            yield _Part(
                first=int(self.first[gops][begin]),
                last=int(self.last[gops][end - 1]),
                decoded=int(self.decoded[gops][begin:end].sum()),
                cost=float(cost[begin:end].sum()),
            )
