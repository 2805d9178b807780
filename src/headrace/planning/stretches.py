"""From wanted frames of one video to stretches that one decoder delivers in one go."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.sizes import check_integers
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Wanted frames of one video that one decoder delivers in one go."""

    video: int
    """Place of the video in the list that was asked for."""
    index: StreamIndex
    """The frames of that video."""
    wanted: tuple[int, ...]
    """Indices of the frames, ascending, none twice."""


def stretches(
    video: int, index: StreamIndex, wanted: NDArray[np.int64], *, at_least: int = 1
) -> Iterator[Stretch]:
    """Cut `wanted` (int64, ascending, none twice) at keyframes.

    Every GOP is decoded by one decoder, once, and no further than its last wanted frame. GOPs that
    follow each other stay together until `at_least` frames are: short jobs cost a seek each.
    """
    gops = np.searchsorted(index.gop_start, wanted, "right") - 1
    part: list[int] = []
    for gop, frames in _by_gop(gops, wanted):
        follows = bool(part) and index.gop_of(part[-1]) + 1 == gop
        if part and (len(part) >= at_least or not follows):
            yield Stretch(video=video, index=index, wanted=tuple(part))
            part = []
        part += frames
    if part:
        yield Stretch(video=video, index=index, wanted=tuple(part))


def in_order(
    video: int, index: StreamIndex, *, stride: int = 1, at_least: int = 1, most: int | None = None
) -> Iterator[Stretch]:
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
