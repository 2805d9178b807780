"""Populations to sample from: one that shows faults, and any."""

import numpy as np
from hypothesis import strategies as st

from headrace.sampling.population import Population


def uneven() -> Population:
    """12 short videos with GOPs of 3 to 20 frames, so that every kind of fault is large."""
    rng = np.random.default_rng(7)
    return Population.of([rng.integers(3, 21, size) for size in rng.integers(2, 7, 12)])


def populations(max_gop: int = 12, max_gops: int = 6, max_videos: int = 6):
    """Strategy: any population of up to max_videos * max_gops * max_gop frames."""
    gops = st.lists(st.integers(1, max_gop), min_size=1, max_size=max_gops)
    return st.lists(gops, min_size=1, max_size=max_videos).map(
        lambda videos: Population.of([np.array(lengths, np.int64) for lengths in videos])
    )
