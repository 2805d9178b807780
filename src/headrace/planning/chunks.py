"""Chunks: a video cut at keyframes into pieces of about equal cost, each done whole or not."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.video.stream_index import StreamIndex

_SEEK = 2.0
"""Frames that might be decoded in the time of a seek: it also makes a codec anew."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Wanted frames of one video that one worker does in one go."""

    video: int
    """Place of the video in the list that was asked for."""
    start: int
    stop: int
    """It is for the wanted frames whose index is in [start, stop)."""
    frames: int
    """How many these are."""
    decoded: int
    """Frames that are decoded for them."""
    cost: float
    """Pixels that are decoded, or might be in the same time: an estimate."""

    @property
    def name(self) -> str:
        """What it is known by, in this and in later runs: by its frames, however cut."""
        return chunk_name(self.video, self.start, self.stop)

    def of(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the wanted frames of its video, int64, ascending, that it is for."""
        return frames_between(wanted, self.start, self.stop)


def chunk_name(video: int, start: int, stop: int) -> str:
    """Return what the frames [start, stop) of a video are known by; names sort as frames do."""
    return f"{video:05d}-{start:08d}-{stop:08d}"


def frames_between(wanted: NDArray[np.int64], start: int, stop: int) -> NDArray[np.int64]:
    """Return those of `wanted`, int64, ascending, that are in [start, stop); a view."""
    first, end = np.searchsorted(wanted, (start, stop))
    return wanted[first:end]


def chunks_of(
    video: int,
    index: StreamIndex,
    wanted: NDArray[np.int64],
    *,
    frame_cost: float,
    most: float,
) -> list[Chunk]:
    """Cut a video into chunks of about equal cost, at keyframes, so that no GOP is decoded twice.

    Of each GOP, what lies up to its last wanted frame is decoded. The borders follow from the
    arguments alone, never from the number of workers, so that a later run has the same chunks.

    Args:
        video: Place of the video in the list that was asked for.
        index: Its frames.
        wanted: int64, ascending, none twice.
        frame_cost: What is done with a wanted frame once it is decoded, in pixels that might be
            decoded in the same time.
        most: What a chunk should cost, in pixels; one GOP may cost more.
    """
    if not len(wanted):
        return []
    gops = np.searchsorted(index.gop_start, wanted, "right") - 1
    first = np.flatnonzero(np.diff(gops, prepend=-1))
    last = np.append(first[1:], len(wanted)) - 1
    height, width = index.info.upright_size
    decoded = wanted[last] - index.gop_start[gops[first]] + 1
    cost = (decoded + _SEEK) * float(height * width) + (last - first + 1) * frame_cost
    total = float(cost.sum())
    pieces = max(1, min(len(first), round(total / most)))
    piece = np.minimum(pieces - 1, ((np.cumsum(cost) - cost / 2) / total * pieces).astype(int))
    borders = np.flatnonzero(np.diff(piece, prepend=-1))
    return [
        Chunk(
            video=video,
            start=int(wanted[first[begin]]),
            stop=int(wanted[last[end - 1]]) + 1,
            frames=int(last[end - 1] - first[begin] + 1),
            decoded=int(decoded[begin:end].sum()),
            cost=float(cost[begin:end].sum()),
        )
        for begin, end in zip(borders, np.append(borders[1:], len(first)), strict=True)
    ]
