"""Single frames: in order, with replacement, each once, by shares; and what every order holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Bursts, Population, RandomClips, UniformClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.sampling.line import line_of
from sampling.kit import populations, share, uneven


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


TWO = Population.of([np.array([2]), np.array([4])], [np.array([1.0, 0]), np.ones(4)])


@given(population=populations(), data=st.data())
def test_every_frame_has_its_share_of_the_line_in_the_order_of_ids(population, data):
    weights = st.tuples(*[st.integers(1, 9)] * population.num_videos)
    over = data.draw(st.sampled_from(["frames", "seconds", "videos"]) | weights)
    ends = np.cumsum(share(population, over))
    line = line_of(population, over)
    for place in (0.001, 0.5, 0.999):
        inside = ends - (1 - place) * share(population, over)
        assert line(inside).tolist() == list(range(population.num_frames))


@pytest.mark.parametrize(("over", "last"), [("seconds", 5), ("videos", 5), ((1.0, 0.0), 1)])
def test_the_end_of_the_line_is_the_last_frame_that_has_a_share(over, last):
    assert line_of(TWO, over)(np.array([1 - 2.0**-53, 1.0])).tolist() == [last, last]


def test_what_has_no_share_is_never_hit():
    places = np.linspace(0, 1, 1001)
    assert 1 not in line_of(TWO, "seconds")(places)
    assert set(line_of(TWO, (0.0, 1.0))(places)) == {2, 3, 4, 5}


RANDOM = [
    Uniform(seed=1),
    Uniform(over="videos", seed=1),
    Uniform(over="seconds", seed=1),
    Permutation(seed=1),
    Permutation(over="seconds", seed=1),
    Bursts(frames_per_burst=1, lanes=1, seed=1),
    RandomClips(num_frames=3, stride=2, temporal_jitter=1, boundary="wrap", seed=1),
    RandomClips(num_frames=3, each_once="starts", boundary="repeat_last", seed=1),
]
ALL = [
    *RANDOM,
    InOrder(stride=2),
    UniformClips(num_clips=2, num_frames=3, boundary="repeat_last"),
]


@pytest.mark.parametrize("sampler", ALL)
@settings(max_examples=40)
@given(population=populations(), data=st.data())
def test_a_slot_holds_the_same_however_it_is_asked_for(sampler, population, data):
    if isinstance(sampler, Bursts) and population.num_frames < 2:
        return
    order = sampler.order(population, 5)
    whole = order[:]
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(order))] * 2)))
    slots = np.array(data.draw(st.lists(st.integers(0, len(order) - 1))), np.int64)
    assert len(whole) == len(order)
    assert order[start:stop].tolist() == whole[start:stop].tolist()
    assert sampler.order(population, 5).at(slots).tolist() == whole[slots].tolist()
    assert order[1::3].tolist() == whole[1::3].tolist()


@pytest.mark.parametrize("sampler", RANDOM)
def test_epochs_and_seeds_have_orders_of_their_own(sampler):
    population = uneven()
    other_seed = type(sampler)(**{**vars(sampler), "seed": 2})
    orders = [sampler.order(population, 0)[:], sampler.order(population, 1)[:]]
    orders.append(other_seed.order(population, 0)[:])
    same = [(a == b).mean() for a, b in ((orders[0], orders[1]), (orders[0], orders[2]))]
    assert max(same) < 0.5


@pytest.mark.parametrize("sampler", ALL)
def test_asking_for_slots_leaves_them_as_they_are(sampler):
    slots = np.arange(10)
    sampler.order(uneven(), 0).at(slots)
    assert slots.tolist() == list(range(10))
