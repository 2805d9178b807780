"""Single frames: in order, with replacement, each once. Uniformity: test_uniformity.py."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.frames import InOrder, Permutation, Uniform, Weighted
from headrace.sampling.population import Population
from sampling.populations import populations, uneven


@given(population=populations(), stride=st.integers(1, 20))
def test_in_order_takes_every_nth_frame_of_each_video(population, stride):
    video, index = population.locate(InOrder(stride=stride).order(population, 0)[:])
    for number, length in enumerate(population.frames_per_video):
        assert index[video == number].tolist() == list(range(0, length, stride))
    assert (np.diff(video) >= 0).all()


@given(population=populations(), seed=st.integers(0, 99), epoch=st.integers(0, 99))
def test_a_permutation_delivers_each_frame_exactly_once(population, seed, epoch):
    order = Permutation(seed=seed).order(population, epoch)
    assert np.sort(order[:]).tolist() == list(range(population.num_frames))


def test_uniform_draws_repeat_frames_as_chance_has_it():
    population = Population.of([np.array([100] * 100)])
    seen = len(np.unique(Uniform().order(population, 0)[:])) / population.num_frames
    assert abs(seen - (1 - np.exp(-1))) < 6 * 0.0031


def test_a_small_weight_makes_a_video_rare():
    population = uneven()
    weights = (0.0,) * 10 + (1.0, 99.0)
    video = population.video_of(
        np.concatenate([Weighted(weights=weights).order(population, e)[:] for e in range(20)])
    )
    assert abs((video == 10).mean() - 0.01) < 6 * np.sqrt(0.0099 / len(video))


def test_time_needs_durations():
    with pytest.raises(ConfigError, match=r"give durations_seconds to Population\.of"):
        Uniform(over="seconds").order(uneven(), 0)


def test_every_video_needs_a_weight():
    with pytest.raises(ConfigError, match="one weight is needed for each of 12 videos, got 2"):
        Weighted(weights=(1, 2)).order(uneven(), 0)


@pytest.mark.parametrize("weights", [(), (0.0, 0.0), (-1.0, 2.0), (float("nan"),), (float("inf"),)])
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(ConfigError, match="weights must be finite, at least 0 and not all 0"):
        Weighted(weights=weights)


def test_what_is_unknown_is_refused():
    with pytest.raises(ConfigError, match="over must be one of frames, seconds, videos, got 'gop'"):
        Uniform(over="gop")
    with pytest.raises(ConfigError, match="stride must be >= 1, got 0"):
        InOrder(stride=0)
