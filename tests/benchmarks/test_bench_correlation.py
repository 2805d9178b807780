"""Tests of benchmarks/bench_correlation.py: bursts lie as far apart as they say, in one stretch."""

import numpy as np

from benchmarks.bench_correlation import cut


def test_pairs_lie_two_apart_and_share_no_frame():
    burst, video = cut([np.array([9]), np.array([4])], frames_per_burst=2, distance=2)
    assert burst.tolist() == [0, 1, 0, 1, 2, 3, 2, 3, -1, 4, 5, 4, 5]
    assert video.tolist() == [0] * 9 + [1] * 4


def test_runs_stay_inside_their_gop():
    burst, video = cut([np.array([5, 3]), np.array([7])], frames_per_burst=3, distance=1)
    assert burst.tolist() == [0, 0, 0, -1, -1, 1, 1, 1, 2, 2, 2, 3, 3, 3, -1]
    assert video.tolist() == [0] * 8 + [1] * 7
