"""Single frames: in order, with replacement, each once. Uniformity: test_uniformity.py."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.sampling.population import Population
from sampling.populations import populations, share, uneven


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


@given(population=populations(), seed=st.integers(0, 99), data=st.data())
def test_a_permutation_gives_frames_and_videos_their_shares_rounded(population, seed, data):
    weights = st.tuples(*[st.floats(0.1, 9)] * population.num_videos)
    over = data.draw(st.sampled_from(["seconds", "videos"]) | weights)
    delivered = Permutation(over=over, seed=seed).order(population, 0)[:]
    due = share(population, over) * population.num_frames
    counts = np.bincount(delivered, minlength=population.num_frames)
    starts = population.video_start[:-1]
    assert np.abs(counts - due).max() < 1 + 1e-9
    assert np.abs(np.add.reduceat(counts - due, starts)).max() < 1 + 1e-9


def test_a_frame_whose_share_is_not_whole_comes_in_as_many_epochs_as_it_says():
    population = uneven()
    orders = [Permutation(over="videos").order(population, epoch)[:] for epoch in range(300)]
    counts = np.bincount(np.concatenate(orders), minlength=population.num_frames) / 300
    due = share(population, "videos") * population.num_frames
    assert np.abs(counts - due).max() < 6 * 0.5 / np.sqrt(300)


@pytest.mark.parametrize("sampler", [Uniform, Permutation])
def test_a_small_weight_makes_a_video_rare_and_none_makes_it_absent(sampler):
    population = uneven()
    orders = [sampler(over=(0.0,) * 10 + (1.0, 99.0)).order(population, e)[:] for e in range(20)]
    video = population.video_of(np.concatenate(orders))
    assert np.unique(video).tolist() == [10, 11]
    assert abs((video == 10).mean() - 0.01) < 6 * np.sqrt(0.0099 / len(video))


def test_uniform_draws_repeat_frames_as_chance_has_it():
    population = Population.of([np.array([100] * 100)])
    seen = len(np.unique(Uniform().order(population, 0)[:])) / population.num_frames
    assert abs(seen - (1 - np.exp(-1))) < 6 * 0.0031


def test_weights_by_length_are_a_plain_permutation_again():
    population = uneven()
    over = tuple(population.frames_per_video.astype(float))
    order = Permutation(over=over, seed=4).order(population, 2)
    assert order[:].tolist() == Permutation(seed=4).order(population, 2)[:].tolist()


@pytest.mark.parametrize("sampler", [Uniform, Permutation])
def test_what_is_impossible_is_refused(sampler):
    with pytest.raises(ConfigError, match="over must be frames, seconds, videos, weights"):
        sampler(over="gop")
    with pytest.raises(ConfigError, match="needed for each of 12 videos or rows, got 2"):
        sampler(over=(1.0, 2.0)).order(uneven(), 0)


def test_a_stride_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="stride must be an integer >= 1, got 0"):
        InOrder(stride=0)
