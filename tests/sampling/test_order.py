"""What holds for the order of every sampler: slots stand for themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.bursts import Bursts
from headrace.sampling.clips import RandomClips, UniformClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from sampling.populations import populations, uneven

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


@pytest.mark.parametrize("slots", [[-1], [643], [0, 1000]])
def test_a_slot_outside_the_epoch_is_refused(slots):
    with pytest.raises(ConfigError, match="below 643, the length of the epoch"):
        Permutation().order(uneven(), 0).at(np.array(slots))
