"""Which moments of a clip are delivered: a stride, a list, times, or a rate."""

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.sampling.moments import Moments

SECONDS = np.arange(25) / 12


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        (Moments.every(6), [0, 6, 12, 18, 24]),
        (Moments.every(10, first=3), [3, 13, 23]),
        (Moments.frames([9, 0, 4, 4]), [0, 4, 9]),
        (Moments.frames({"clip": np.array([2, 3])}), [2, 3]),
        (Moments.at_seconds([0.5, 0.04, 1.02], tolerance_ms=45), [0, 6, 12]),
        (Moments.rate(2.0), [0, 6, 12, 18, 24]),
        (Moments.rate(12), list(range(25))),
        (Moments.rate(8), [0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19, 21, 22, 24]),
    ],
)
def test_the_moments_that_are_asked_for(moments, expected):
    assert moments.of("clip", SECONDS).tolist() == expected


def test_a_grid_has_no_moment_in_a_gap():
    seconds = np.array([0, 0.09, 0.2, 0.29, 2.0, 2.09, 2.2, 2.26])
    assert Moments.rate(5).of("clip", seconds).tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("moments", "said"),
    [
        (Moments.every(1, first=25), "moment 25 of clip a was asked for, and it has 25"),
        (Moments.frames([3, 30]), "moment 30 of clip a was asked for"),
        (Moments.at_seconds([1.0, 500.0]), r"no moment at 500\.0+ s: the nearest is 498000\.0 ms"),
        (Moments.rate(24), "24 moments a second were asked for, and clip a has 12; ask for at"),
    ],
)
def test_moments_that_are_not_there_are_named(moments, said):
    with pytest.raises(ConfigError, match=said):
        moments.of("a", SECONDS)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Moments.every(0),
        lambda: Moments.frames([1.5]),
        lambda: Moments.frames([-1]),
        lambda: Moments.frames({"a": []}),
        lambda: Moments.frames(7),
        lambda: Moments.frames([True]),
        lambda: Moments.at_seconds(["x"]),
        lambda: Moments.at_seconds([float("nan")]),
        lambda: Moments.at_seconds([1], tolerance_ms=-1),
        lambda: Moments.rate(0),
        lambda: Moments.rate(float("inf")),
        lambda: Moments.rate("2"),
        lambda: Moments.rate(True),
        lambda: Moments.at_seconds([1], tolerance_ms="20"),
        lambda: Moments.frames({}),
    ],
)
def test_what_is_no_choice_is_refused(wrong):
    with pytest.raises(ConfigError):
        wrong()
