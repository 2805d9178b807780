"""Frames go with their places in time, exactly."""

from fractions import Fraction

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.video.frames import FrameBatch

TICK = Fraction(1, 90_000)
FRAMES = np.zeros((2, 4, 6, 3), np.uint8)


def batch(**changes) -> FrameBatch:
    fields = {
        "frames": FRAMES,
        "video": 0,
        "index": np.array([3, 4]),
        "pts": np.array([9009, 12012]),
        "time_base": TICK,
    }
    return FrameBatch(**{**fields, **changes})


def test_seconds_are_computed_from_ticks():
    assert batch().pts_seconds.tolist() == pytest.approx([0.1001, 0.1334667])
    assert [ticks * TICK for ticks in batch().pts.tolist()] == [
        Fraction(1001, 10_000),
        Fraction(1001, 7500),
    ]


def test_nothing_is_concealed_unless_it_is_said():
    assert batch().is_concealed.tolist() == [False, False]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"frames": FRAMES[0]},
            r"frames must be uint8 or uint16 .*, got uint8 \[4, 6, 3\]",
        ),
        ({"frames": FRAMES.astype(float)}, "got float64"),
        ({"pts": np.array([1])}, "2 frames cannot go with 2 indices and 1 times"),
        ({"index": np.array([1])}, "2 frames cannot go with 1 indices and 2 times"),
        ({"pts": np.array([0.1, 0.2])}, "pts must be ticks, int64 .*, got float64"),
    ],
)
def test_what_does_not_fit_together_cannot_be_built(changes, message):
    with pytest.raises(ConfigError, match=message):
        batch(**changes)
