"""Frames per second are what the counts say, times what each costs."""

import pytest

from headrace.errors import ConfigError
from headrace.sampling.costs import DecodeCost
from headrace.sampling.speed import Speed

SPEED = Speed(
    seconds_per_seek=0.004, seconds_per_decoded=0.002, seconds_per_delivered=0.001, workers=2
)


def cost(amplification, seeks=1.0):
    return DecodeCost(amplification=amplification, seeks=seeks, held_frames=0)


def test_throughput_counts_seeks_and_decoded_and_delivered_frames():
    assert SPEED.throughput(cost(10, 0.5)) == pytest.approx(2 / (0.002 + 0.020 + 0.001))


def test_a_frame_that_is_used_twice_is_converted_once():
    assert SPEED.throughput(cost(0.5, 0)) == pytest.approx(2 / (0.001 + 0.0005))


@pytest.mark.parametrize(("share", "decoded"), [(0.0, 11), (0.5, 6), (0.9, 2)])
def test_droppable_frames_that_are_passed_are_not_decoded(share, decoded):
    speed = Speed(**{**vars(SPEED), "droppable_share": share})
    assert speed.decoded(cost(11)) == pytest.approx(decoded)
    assert speed.decoded(cost(1)) == 1
    assert speed.decoded(cost(0.5)) == 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 0},
        {"seconds_per_seek": -1},
        {"droppable_share": 1.0},
        {"seconds_per_seek": 0, "seconds_per_decoded": 0, "seconds_per_delivered": 0},
    ],
)
def test_impossible_constants_are_refused(wrong):
    with pytest.raises(ConfigError):
        Speed(**{**vars(SPEED), **wrong})
