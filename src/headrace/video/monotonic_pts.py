"""Times that lie: put right so that they ascend, and as few as possible change."""

from bisect import bisect_right
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.video.timebase import NO_PTS

_RESTART_SECONDS: Final = Fraction(1, 10)
"""Times that go back further have another clock, by FFmpeg's own rule."""
_SOON: Final = 10
"""Packets within which times that lie are right again."""


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


def clock_shifts(
    dts: NDArray[np.int64], time_base: Fraction, *, turn: int = 0
) -> NDArray[np.int64]:
    """Return the ticks to add to each packet's times so that they go on where a clock restarts.

    A joined file has several clocks: the first packet of a part follows the last one of the part
    before, as FFmpeg has it when it reads in order (`ts_discontinuity_process` of
    `fftools/ffmpeg_demux.c`). Times that go back, or ahead, for a few packets alone are no new
    clock.

    Args:
        dts: int64 [packets], in decoding order; `NO_PTS` where there is none.
        time_base: Seconds per tick.
        turn: Ticks after which the clock begins at 0 again; 0: never. FFmpeg takes times far before
            the first one for those behind such a turn.
    """
    shifts = np.zeros(len(dts), np.int64)
    timed = np.flatnonzero(dts != NO_PTS)
    steps = np.diff(dts[timed])
    turned = np.round(steps / turn).astype(np.int64) * turn if turn else np.zeros_like(steps)
    steps -= turned
    if (steps > 0).any():
        ticks = np.append(0, steps).cumsum()
        step = int(np.median(steps[steps > 0]))
        for place in np.flatnonzero(steps < -int(_RESTART_SECONDS / time_base)).tolist():
            if _is_restart(ticks, place + 1, step):
                turned[place] += steps[place] - step
    shifts[timed[1:]] = -turned
    return shifts.cumsum()


def _is_restart(ticks: NDArray[np.int64], first: int, step: int) -> bool:
    """Return whether times that go back at `first` neither come back soon nor were ahead before."""
    after, before = ticks[first : first + 1 + _SOON], ticks[max(0, first - _SOON) : first]
    gone_back = before[-1] - after[0]
    is_back = after - after[0] - step * np.arange(len(after)) > gone_back // 2
    # What a packet before the last ones goes on to, at its own pace, is what comes here.
    goes_on = before + step * np.arange(len(before), 0, -1) <= after[0] + step
    return not (is_back.any() or goes_on.any())


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
