"""Populations whose frames have times, even and uneven, in ticks of several lengths."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from headrace.sampling.population import Population
from headrace.sampling.times import FrameTimes

TIME_BASES = [Fraction(1, each) for each in (25, 1000, 15360, 90000, 10**9)]


def even(num_frames: int, rate: Fraction, time_base: Fraction, first: int = 0) -> FrameTimes:
    """The times of frames at `rate`, rounded to ticks as a container rounds them."""
    pts = [first + round(k / rate / time_base) for k in range(num_frames + 1)]
    return FrameTimes(pts=np.array(pts[:-1], np.int64), end=pts[-1], time_base=time_base)


@st.composite
def frame_times(draw) -> FrameTimes:
    """Strategy: the times of up to 30 frames, each shown for 1 ms to 0.5 s or 1 tick."""
    time_base = draw(st.sampled_from(TIME_BASES))
    longest = max(1, int(Fraction(1, 2) / time_base))
    gaps = draw(st.lists(st.integers(1, longest), min_size=1, max_size=30))
    first = draw(st.integers(0, 5 * longest))
    pts = first + np.cumsum([0, *gaps])
    return FrameTimes(pts=pts[:-1], end=int(pts[-1]), time_base=time_base)


def population_of(times: list[FrameTimes]) -> Population:
    """Videos of one GOP each."""
    return Population.of([np.array([len(each)]) for each in times], times=times)


def shown_by_hand(times: FrameTimes, index: int, seconds: Fraction) -> int | None:
    """Which frame is shown `seconds` from a frame, by `FrameTimes`'s words alone; None: none."""
    ticks = [*times.pts.tolist(), times.end]
    is_fine = ticks[-1] - ticks[0] >= 4 * len(times)
    early = max(Fraction(1, 10**6), times.time_base if is_fine else Fraction(0))
    moment = ticks[index] * times.time_base + (seconds + early if seconds else 0)
    shown = [
        k
        for k, (a, b) in enumerate(pairwise(ticks))
        if a * times.time_base <= moment < b * times.time_base
    ]
    return shown[0] if shown else None
