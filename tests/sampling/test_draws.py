"""Draws are functions of their number, permutations of their place, visits of their slot."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sampling.feistel import Feistel
from headrace.sampling.random import Draws, Purpose, philox
from headrace.sampling.visits import Visits
from sampling.kit import g_statistic, g_threshold

DRAWS = Draws(seed=12, epoch=3, purpose=Purpose.FRAME)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((2**32 - 1,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            0x299F31D0A4093822,
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers_of_its_authors(counter, key, expected):
    words = philox(tuple(np.array([word], np.uint64) for word in counter), key)
    assert tuple(int(word[0]) for word in words) == expected


@given(numbers=st.lists(st.integers(0, 2**62), min_size=1))
def test_a_draw_does_not_depend_on_what_is_drawn_with_it(numbers):
    together = DRAWS.integers(np.array(numbers), 1000)
    assert together.tolist() == [int(DRAWS.integers(number, 1000)) for number in numbers]


@pytest.mark.parametrize(
    "other",
    [
        Draws(seed=13, epoch=3, purpose=Purpose.FRAME),
        Draws(seed=12 + (1 << 32), epoch=3, purpose=Purpose.FRAME),
        Draws(seed=12, epoch=4, purpose=Purpose.FRAME),
        Draws(seed=12, epoch=3, purpose=Purpose.SHUFFLE),
    ],
)
def test_seed_epoch_and_purpose_each_make_other_draws(other):
    numbers = np.arange(100)
    assert not np.intersect1d(DRAWS.words(numbers), other.words(numbers)).size


@given(number=st.integers(0, 2**62), below=st.integers(1, 2**63 - 1))
def test_integers_are_the_high_word_of_the_exact_product(number, below):
    expected = int(DRAWS.words(number)) * below >> 64
    assert int(DRAWS.integers(number, below)) == expected
    assert 0 <= expected < below


def coarse_g(values, below: int) -> float:
    """G of 12 equal parts of the range."""
    cells = values.astype(np.float64) // (below / 12)
    return g_statistic(np.bincount(cells.astype(int), minlength=12), np.full(12, 1 / 12))


@pytest.mark.parametrize("below", [12, 1200, 3 << 30, 3 << 61])
def test_integers_are_uniform_in_any_range(below):
    assert coarse_g(DRAWS.integers(np.arange(20_000), below), below) < g_threshold(12)


def test_words_modulo_a_range_are_told_from_uniform_integers():
    below = 3 << 30
    modulo = (DRAWS.words(np.arange(20_000)) & np.uint64(2**32 - 1)) % np.uint64(below)
    assert coarse_g(modulo, below) > g_threshold(12)


def test_fractions_are_uniform_and_below_1():
    fractions = DRAWS.fractions(np.arange(20_000))
    assert 0 <= fractions.min() < fractions.max() < 1
    assert coarse_g(fractions * 12, 12) < g_threshold(12)


def test_every_draw_has_its_own_range():
    assert DRAWS.integers(np.arange(500), np.array([1, 2] * 250))[::2].tolist() == [0] * 250


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


WEIGHTS = np.array([2.5, 1.5, 0.4, 0.3, 0.3])
VIDEOS = np.arange(len(WEIGHTS))


@pytest.mark.parametrize(
    "draws",
    [[(0, epoch) for epoch in range(2000)], [(seed, 0) for seed in range(2000)]],
    ids=["epochs", "seeds"],
)
def test_a_video_comes_as_its_share_says_rounded_and_on_average_exactly_so(draws):
    visits = [Visits.shuffled(VIDEOS, WEIGHTS, seed=seed, epoch=epoch) for seed, epoch in draws]
    counts = np.array([np.bincount(each.at(VIDEOS), minlength=len(VIDEOS)) for each in visits])
    assert set(np.unique(counts - np.floor(WEIGHTS).astype(int))) == {0, 1}
    part = WEIGHTS - np.floor(WEIGHTS)
    error = np.sqrt(part * (1 - part) / len(draws))
    assert (np.abs(counts.mean(axis=0) - WEIGHTS) <= 4 * error).all()
