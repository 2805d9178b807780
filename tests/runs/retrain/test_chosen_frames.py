"""The sampler of frames that have a class."""

import numpy as np

from headrace.runs.retrain.chosen_frames import ChosenFrames
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerUse, adapted, check_order

INDICES = tuple(np.array(each) for each in ([0, 2], [1, 3, 4], [5]))
POPULATION = Population.of([np.array([6]), np.array([3, 4])])
"""Of the videos 0 and 2 of three: the second cannot be opened."""


def opened(sampler: ChosenFrames) -> ChosenFrames:
    use = SamplerUse(videos=np.array([0, 2]), videos_given=3, seed=5)
    return adapted(sampler, use)


def test_chosen_frames_come_in_order_or_shuffled_each_once():
    in_order = opened(ChosenFrames(indices=INDICES, is_shuffled=False))
    assert in_order.order(POPULATION, 0)[:].tolist() == [0, 2, 11]
    many = tuple(np.arange(6) for _ in INDICES)
    shuffled = opened(ChosenFrames(indices=many))
    orders = [shuffled.order(POPULATION, epoch)[:].tolist() for epoch in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == list(range(12))
    check_order(shuffled.order(POPULATION, 0), shuffled, POPULATION)


def test_other_frames_are_another_identity():
    one, same, other = (
        ChosenFrames(indices=each).traits.identity for each in (INDICES, INDICES, INDICES[::-1])
    )
    assert one == same != other
