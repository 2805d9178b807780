"""Populations to sample from: one that shows faults, and any."""

import numpy as np
from hypothesis import strategies as st

from headrace.sampling.population import Population


def uneven() -> Population:
    """12 short videos with GOPs of 3 to 20 frames, so that every kind of fault is large.

    Frames are shown for random times, and one of them for none.
    """
    rng = np.random.default_rng(7)
    gops = [rng.integers(3, 21, size) for size in rng.integers(2, 7, 12)]
    shown = [rng.exponential(0.04, lengths.sum()) for lengths in gops]
    shown[3][5] = 0
    return Population.of(gops, shown)


def populations(max_gop: int = 12, max_gops: int = 6, max_videos: int = 6):
    """Strategy: any population of up to max_videos * max_gops * max_gop frames, with durations."""
    gops = st.lists(st.integers(1, max_gop), min_size=1, max_size=max_gops)
    return st.lists(gops, min_size=1, max_size=max_videos).map(_shown)


def share(population: Population, over) -> np.ndarray:
    """float64 [frames]: the probability of each frame, from the meaning of `over` alone."""
    lengths = population.frames_per_video
    if over == "seconds":
        return np.diff(population.shown_until, prepend=0) / population.shown_until[-1]
    weights = {"frames": lengths, "videos": np.ones(len(lengths))}
    of_video = np.array(weights[over] if isinstance(over, str) else over)
    return np.repeat(of_video / of_video.sum() / lengths, lengths)


def _shown(videos: list[list[int]]) -> Population:
    """Frames are shown for 1, 2, 3, 4, 1, 2, ... seconds."""
    gops = [np.array(lengths, np.int64) for lengths in videos]
    return Population.of(gops, [1.0 + np.arange(lengths.sum()) % 4 for lengths in gops])
