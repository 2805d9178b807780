"""A permutation that is computed place by place."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sampling.feistel import Feistel
from headrace.sampling.random import Draws, Purpose
from sampling.checks import g_statistic, g_threshold


def shuffle(size: int, seed: int = 0) -> Feistel:
    return Feistel(size=size, draws=Draws(seed=seed, epoch=0, purpose=Purpose.SHUFFLE))


@given(size=st.integers(1, 3000), seed=st.integers(0, 2**64 - 1))
def test_every_thing_stands_somewhere_once(size, seed):
    assert np.sort(shuffle(size, seed).at(np.arange(size))).tolist() == list(range(size))


@given(size=st.integers(1, 2**62), seed=st.integers(0, 100), data=st.data())
def test_a_thing_is_found_where_it_stands(size, seed, data):
    positions = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1)))
    things = shuffle(size, seed).at(positions)
    assert 0 <= things.min() <= things.max() < size
    assert shuffle(size, seed).position_of(things).tolist() == positions.tolist()


@pytest.mark.parametrize("size", [3, 4, 5])
def test_all_orders_of_few_things_are_as_frequent(size):
    number = {order: k for k, order in enumerate(permutations(range(size)))}
    places = np.arange(size)
    orders = [number[tuple(shuffle(size, seed).at(places).tolist())] for seed in range(1500)]
    counts = np.bincount(orders, minlength=len(number))
    assert g_statistic(counts, np.full(len(number), 1 / len(number))) < g_threshold(len(number))


@pytest.mark.parametrize(("size", "seeds"), [(6, 4000), (12, 1500)])
def test_neighbours_are_any_pair(size, seeds):
    """With 6 rounds, the first case fails."""
    pairs = np.array([shuffle(size, seed).at(np.arange(2)) for seed in range(seeds)])
    counts = np.bincount(pairs @ [size, 1], minlength=size * size).reshape(size, size)
    assert not np.diag(counts).any()
    counts = counts[~np.eye(size, dtype=bool)]
    assert g_statistic(counts, np.full(len(counts), 1 / len(counts))) < g_threshold(len(counts))


def test_steps_between_neighbours_in_a_long_order_are_spread():
    size = 1_000_003
    steps = np.diff(shuffle(size).at(np.arange(20_000))) % size
    counts = np.bincount(steps * 50 // size, minlength=50)
    assert g_statistic(counts, np.full(50, 1 / 50)) < g_threshold(50)
