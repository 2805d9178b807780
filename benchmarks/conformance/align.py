"""Which frame of the plain decode is which frame of an index.

An index counts frames that are presented, also those that a plain decode loses with a complaint;
and it may lack some, by a fault of its own. Equal counts mean equal places. Otherwise times that
occur once on both sides are anchors, and what lies between two anchors is matched in order. Where
that leaves a choice, a frame may be any of those that the order allows, and no other.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.conformance.reference import NO_PTS

_Times = NDArray[np.int64]
_MOST = 0.9
"""Share of the frames whose times must say so before frames of equal counts change their places."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Alignment:
    """For each frame of the index, which frames of the plain decode it may be: [first, stop)."""

    first: _Times
    stop: _Times
    """Equal to `first` where the plain decode has no such frame."""
    unindexed: tuple[int, ...]
    """Frames of the plain decode that are in no frame's range: the index lacks them."""

    def __len__(self) -> int:
        return len(self.first)

    @property
    def loose(self) -> int:
        """How many frames of the index may be more than one."""
        return int((self.stop - self.first > 1).sum())


def align(index: _Times, reference: _Times, *, is_whole: bool = True) -> Alignment:
    """Match the times of an index, ascending, with those of a plain decode, as they came.

    Where the plain decode was not whole, the alignment ends with it.
    """
    pairs = _anchors(index, reference)
    if not is_whole:
        count = int(pairs[-1, 0]) + 1 if len(pairs) else min(len(index), len(reference))
        index = index[:count]
    if len(index) == len(reference) and len(pairs) < _MOST * len(index):
        pairs = np.zeros((0, 2), np.int64)
    first, stop = np.zeros(len(index), np.int64), np.zeros(len(index), np.int64)
    ends = np.array([[len(index), len(reference)]], np.int64)
    begin, begins = 0, 0
    for n, r in np.concatenate([pairs, ends]).tolist():
        low, high = _between(n - begin, r - begins)
        first[begin:n], stop[begin:n] = begins + low, begins + high
        if n < len(index):
            first[n], stop[n] = r, r + 1
        begin, begins = n + 1, r + 1
    return Alignment(first=first, stop=stop, unindexed=_left_over(first, stop, len(reference)))


def _anchors(index: _Times, reference: _Times) -> NDArray[np.int64]:
    """Return int64 [anchors, 2], places in both, rising; none where times cannot be trusted."""
    none = np.zeros((0, 2), np.int64)
    if (reference == NO_PTS).any():
        return none
    once = np.intersect1d(_once(index), _once(reference))
    if 2 * len(once) < min(len(index), len(reference)):
        return none
    ours, theirs = (np.flatnonzero(np.isin(times, once)) for times in (index, reference))
    is_one_order = np.array_equal(index[ours], reference[theirs])
    return np.stack([ours, theirs], axis=1) if is_one_order else none


def _between(frames: int, decoded: int) -> tuple[_Times, _Times]:
    """Return [first, stop) for each of `frames` of an index, among `decoded` others in order."""
    place = np.arange(frames)
    if not decoded:
        return place * 0, place * 0
    if frames >= decoded:
        return np.maximum(0, place - (frames - decoded)), np.minimum(place, decoded - 1) + 1
    return place, place + (decoded - frames) + 1


def _once(times: _Times) -> _Times:
    values, counts = np.unique(times, return_counts=True)
    once: _Times = values[counts == 1]
    return once


def _left_over(first: _Times, stop: _Times, count: int) -> tuple[int, ...]:
    steps = np.zeros(count + 1, np.int64)
    np.add.at(steps, first, 1)
    np.add.at(steps, stop, -1)
    return tuple(np.flatnonzero(np.cumsum(steps)[:count] == 0).tolist())
