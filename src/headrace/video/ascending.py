"""Times that lie: put right so that they ascend, and as few as possible change."""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray


def ascending(ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return times of frames, int64 in the order in which they are shown, so that none goes back.

    Those of the longest run that ascends stay; a time that breaks it is put evenly between its
    neighbours. Costs nothing where they ascend, as they mostly do.
    """
    if len(ticks) < 2 or (np.diff(ticks) >= 0).all():
        return ticks
    kept = _longest_ascent(ticks.tolist())
    places = np.arange(len(ticks))
    return np.interp(places, kept, ticks[kept]).astype(np.int64)


def _longest_ascent(values: list[int]) -> list[int]:
    """Return the places of a longest subsequence that never goes back."""
    ends: list[int] = []
    """The least value that a run of each length ends with."""
    at: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values):
        length = bisect_right(ends, value)
        before.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        at[length : length + 1] = [place]
    place, run = at[-1], list[int]()
    while place >= 0:
        run.append(place)
        place = before[place]
    return run[::-1]
