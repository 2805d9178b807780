"""Which frame is shown when."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.population import Population
from headrace.sampling.times import FrameTimes, seconds_of
from sampling.timed import even, frame_times, population_of, shown_by_hand

RATES = [Fraction(r) for r in ("15", "24000/1001", "24", "25", "30000/1001", "30", "50", "60")]


@given(
    times=st.lists(frame_times(), min_size=1, max_size=3),
    seconds=st.lists(st.fractions(-2, 2, max_denominator=1000), min_size=1, max_size=5),
)
def test_a_frame_is_shown_from_its_time_until_that_of_the_next(times, seconds):
    population = population_of(times)
    for video, of in enumerate(times):
        index = np.arange(len(of))
        found, outside = population.shown_after(np.full(len(of), video), index, tuple(seconds))
        for start in index.tolist():
            for k, each in enumerate(seconds):
                by_hand = shown_by_hand(of, start, each)
                assert outside[start, k] == (by_hand is None)
                edge = 0 if each < 0 else len(of) - 1
                assert found[start, k] == (edge if by_hand is None else by_hand)


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("per_second", [1000, 15360, 90000, 10**9])
def test_at_its_own_rate_a_video_gives_frame_after_frame_however_its_times_are_rounded(
    rate, per_second
):
    times = even(200, rate, Fraction(1, per_second), first=7)
    seconds = tuple(k / rate for k in range(50))
    found, outside = population_of([times]).shown_after(
        np.zeros(150, np.int64), np.arange(150), seconds
    )
    assert (found == np.arange(150)[:, None] + np.arange(50)).all()
    assert not outside.any()


@pytest.mark.parametrize("time_base", [Fraction(1, 30), Fraction(1, 1000), Fraction(1, 15360)])
def test_times_may_be_written_as_decimals(time_base):
    times = even(30, Fraction(30), time_base)
    seconds = seconds_of("delta_seconds", [-2 / 30, -1 / 30, 0.0, 0.033333, 2 / 30])
    found, _ = population_of([times]).shown_after(np.array([0]), np.array([10]), seconds)
    assert found.tolist() == [[8, 9, 10, 11, 12]]


@given(times=frame_times(), last=st.fractions(0, 3, max_denominator=50))
def test_starts_are_those_from_which_something_is_shown_to_the_end(times, last):
    fits = [shown_by_hand(times, k, last) is not None for k in range(len(times))]
    assert times.num_starts((Fraction(0), last)) == sum(fits)
    assert fits == sorted(fits, reverse=True)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ((), "must be seconds, as in"),
        ("0.1", "must be seconds, as in"),
        ((0.1, float("nan")), "each of delta_seconds must be a finite number"),
        ((True,), "each of delta_seconds must be a finite number"),
        ((1e12,), "must be at most 10\\*\\*9 seconds away"),
    ],
)
def test_what_is_no_time_is_refused(given_, message):
    with pytest.raises(ConfigError, match=message):
        seconds_of("delta_seconds", given_)


def test_without_times_nothing_is_sampled_by_time():
    population = Population.of([np.array([5])])
    with pytest.raises(ConfigError, match="needs to know when each frame is shown; give times"):
        population.timed()
    short = FrameTimes(pts=np.arange(4), end=4, time_base=Fraction(1, 25))
    with pytest.raises(ConfigError, match="one FrameTimes for each video"):
        Population.of([np.array([5])], times=[short])
