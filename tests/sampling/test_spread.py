"""Frames spread over the whole of each video."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.population import Population
from headrace.sampling.spread import SpreadClips
from sampling.timed import even, frame_times, population_of

EVEN = [even(count, Fraction(25), Fraction(1, 90000), first=40) for count in (100, 8, 3, 1)]


def by_index(total, parts):
    """Where frames of an even video are, by their numbers alone."""
    return {
        "middle": [(2 * k + 1) * total // (2 * parts) for k in range(parts)],
        "ends": [k * (total - 1) // max(1, parts - 1) for k in range(parts)],
    }


@pytest.mark.parametrize("parts", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("place", ["middle", "ends"])
def test_of_an_even_video_frames_are_those_at_equal_numbers(parts, place):
    population = population_of(EVEN)
    order = SpreadClips(num_segments=parts, place=place, shuffle=False).order(population, 0)
    video, index = population.locate(order[:])
    assert video[:, 0].tolist() == [0, 1, 2, 3]
    for times, row in zip(EVEN, index.tolist(), strict=True):
        assert row == by_index(len(times), parts)[place]


@pytest.mark.parametrize("time_base", [Fraction(1, 1000), Fraction(1, 15360)])
def test_all_frames_of_a_video_are_spread_over_it(time_base):
    """60 frames a second come 16 or 17 ms apart."""
    population = population_of([even(64, Fraction(60), time_base)])
    for place in ("middle", "ends"):
        clips = SpreadClips(num_segments=64, place=place).order(population, 0)[:]
        assert clips.tolist() == [list(range(64))]


@given(
    times=st.lists(frame_times(), min_size=1, max_size=4),
    parts=st.integers(1, 9),
    place=st.sampled_from(["random", "middle", "ends"]),
    epoch=st.integers(0, 2),
)
def test_each_part_of_the_time_gives_a_frame_that_is_shown_in_it(times, parts, place, epoch):
    population = population_of(times)
    clips = SpreadClips(num_segments=parts, place=place).order(population, epoch)[:]
    video, index = population.locate(clips)
    assert sorted(video[:, 0].tolist()) == list(range(len(times)))
    assert (np.diff(index) >= 0).all()
    if place == "ends":
        return
    for v, row in zip(video[:, 0].tolist(), index.tolist(), strict=True):
        ticks = [*times[v].pts.tolist(), times[v].end]
        span = ticks[-1] - ticks[0]
        for k, each in enumerate(row):
            assert ticks[each] - 1 - ticks[0] <= max(1, (k + 1) * span / parts)
            assert ticks[each + 1] - ticks[0] >= k * span // parts


def test_random_moments_are_uniform_in_each_part():
    """One video of 40 frames in 4 parts: 2,000 epochs of counts within 5 sigma."""
    population = population_of([even(40, Fraction(25), Fraction(1, 1000))])
    sampler = SpreadClips(num_segments=4)
    rows = np.concatenate([sampler.order(population, epoch)[:] for epoch in range(2000)])
    for k, column in enumerate(rows.T):
        counts = np.bincount(column - 10 * k, minlength=10)
        assert np.abs(counts - 200).max() < 5 * np.sqrt(180)
    assert abs(np.corrcoef(rows[:, 0], rows[:, 1])[0, 1]) < 0.1


def test_runs_lie_inside_their_video_or_repeat_its_last_frame():
    population = population_of(EVEN)
    sampler = SpreadClips(
        num_segments=2, frames_per_segment=3, stride=2, place="ends", shuffle=False
    )
    order = sampler.order(population, 0)
    index = population.locate(order[:])[1].tolist()
    assert index == [
        [0, 2, 4, 95, 97, 99],
        [0, 2, 4, 3, 5, 7],
        [0, 2, 2, 0, 2, 2],
        [0, 0, 0, 0, 0, 0],
    ]
    pads = order.is_pad_at(np.arange(4))
    no, last = [False] * 3, [False, False, True]
    assert pads.tolist() == [no + no, no + no, last + last, [False, True, True] * 2]


def test_weights_say_how_often_a_video_comes():
    population = population_of(EVEN)
    order = SpreadClips(num_segments=2, weights=(0.0, 1.0, 3.0, 0.0)).order(population, 0)
    came = np.bincount(population.video_of(order[:][:, 0]), minlength=4)
    assert came.tolist() == [0, 1, 3, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_segments": 0}, "num_segments must be an integer >= 1, got 0"),
        ({"frames_per_segment": 1.5}, "frames_per_segment must be an integer >= 1, got 1.5"),
        ({"stride": 0}, "stride must be an integer >= 1, got 0"),
        ({"place": "start"}, "place must be one of random, middle, ends, got 'start'"),
        ({"weights": (1.0,), "shuffle": False}, "weights need shuffle=True"),
    ],
)
def test_impossible_spreads_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        SpreadClips(**{"num_segments": 4, **options})


def test_without_times_nothing_is_spread():
    with pytest.raises(ConfigError, match="give times to"):
        SpreadClips(num_segments=2).order(Population.of([np.array([5])]), 0)
