"""Which frame belongs to a moment, by index and by time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.alignment import MISSING, nearest, previous, repeated, same_index

TIMES = np.array([0.0, 0.1, 0.2, 0.5, 0.6])


@pytest.mark.parametrize(
    ("moment", "near", "before"),
    [
        (0.0, 0, 0),
        (0.04, 0, 0),
        (0.05, 0, 0),
        (0.06, 1, 0),
        (0.19, 2, 1),
        (0.29, 2, 2),
        (0.35, MISSING, MISSING),
        (0.42, 3, MISSING),
        (0.69, 4, 4),
        (0.8, MISSING, MISSING),
        (-0.05, 0, MISSING),
        (-0.2, MISSING, MISSING),
    ],
)
def test_the_frame_of_a_moment(moment, near, before):
    assert nearest(np.array([moment]), TIMES, 0.1).tolist() == [near]
    assert previous(np.array([moment]), TIMES, 0.1).tolist() == [before]


ASCENDING = st.lists(st.integers(0, 10_000), min_size=1, max_size=40, unique=True).map(sorted)


@given(moments=ASCENDING, times=ASCENDING, tolerance=st.integers(0, 3_000))
def test_no_other_frame_is_nearer(moments, times, tolerance):
    found = nearest(np.array(moments) / 1, np.array(times) / 1, tolerance)
    for moment, frame in zip(moments, found.tolist(), strict=True):
        distances = [abs(time - moment) for time in times]
        if min(distances) > tolerance:
            assert frame == MISSING
        else:
            assert frame == distances.index(min(distances))


@given(moments=ASCENDING, times=ASCENDING, tolerance=st.integers(0, 3_000))
def test_no_frame_of_the_future_is_taken(moments, times, tolerance):
    found = previous(np.array(moments) / 1, np.array(times) / 1, tolerance)
    for moment, frame in zip(moments, found.tolist(), strict=True):
        before = [k for k, time in enumerate(times) if time <= moment]
        is_there = before and moment - times[before[-1]] <= tolerance
        assert frame == (before[-1] if is_there else MISSING)


def test_a_camera_that_ends_early_misses_its_last_moments():
    assert same_index(5, 3).tolist() == [0, 1, 2, MISSING, MISSING]
    assert same_index(2, 3).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([0, 1, -1, -1, 4], [0, 1, 1, 1, 4]),
        ([-1, -1, 2, -1], [2, 2, 2, 2]),
        ([-1, -1], [-1, -1]),
    ],
)
def test_the_last_frame_comes_again(frames, expected):
    assert repeated(np.array(frames)).tolist() == expected


def test_impossible_requests_are_refused():
    with pytest.raises(ConfigError, match="tolerance must be >= 0, got -1"):
        nearest(TIMES, TIMES, -1)
    with pytest.raises(ConfigError, match="tolerance must be >= 0, got nan"):
        previous(TIMES, TIMES, float("nan"))
    with pytest.raises(ConfigError, match="at least one frame"):
        nearest(TIMES, np.array([]), 1)
