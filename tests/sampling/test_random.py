"""Draws are functions of their number, and uniform."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.random import Draws, Purpose, philox
from sampling.checks import g_statistic, g_threshold

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


@pytest.mark.parametrize(
    ("seed", "epoch", "message"),
    [
        (-1, 0, r"seed must be at least 0 and below 2\*\*64, got -1"),
        (1 << 64, 0, "seed must be"),
        (0, -1, "epoch must be"),
        (0, 1 << 32, r"epoch must be at least 0 and below 2\*\*32, got 4294967296"),
    ],
)
def test_a_seed_or_epoch_that_is_no_key_is_refused(seed, epoch, message):
    with pytest.raises(ConfigError, match=message):
        Draws(seed=seed, epoch=epoch, purpose=Purpose.FRAME)
