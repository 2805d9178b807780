"""The search finds the highest load of any system in few steps."""

from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bench.ladder import Scale, highest_held, lowest_broken, next_level

Tried = namedtuple("Tried", ["level", "holds"])
RATES = Scale(first=30, least=5, most=4000)
STREAMS = Scale(first=1, least=1, most=64, is_whole=True, close=1.0)


def searched(scale, holds):
    """Return all loads tried on a simulated system."""
    tried = []
    while (level := next_level(tried, scale)) is not None:
        tried.append(Tried(level, holds(level)))
    return tried


@given(capacity=st.floats(5, 4000))
def test_a_rate_is_found_within_a_tenth_in_few_steps(capacity):
    tried = searched(RATES, lambda rate: rate <= capacity)
    met, missed = highest_held(tried), lowest_broken(tried)
    assert len(tried) <= 12
    assert met.level <= capacity
    if missed is None:
        assert met.level == 4000
    else:
        assert capacity < missed.level <= met.level * 1.12, "10 %, and rounding"


@given(capacity=st.integers(1, 64))
def test_a_number_of_streams_is_found_exactly(capacity):
    tried = searched(STREAMS, lambda streams: streams <= capacity)
    assert highest_held(tried) == (capacity, True)
    assert lowest_broken(tried) == (None if capacity == 64 else (capacity + 1, False))
    assert all(load.level == int(load.level) for load in tried)


@given(scale=st.sampled_from([RATES, STREAMS]), seed=st.randoms(use_true_random=False))
def test_it_ends_and_tries_no_load_twice_on_inconsistent_systems(scale, seed):
    tried = searched(scale, lambda level: seed.random() < 0.5)
    levels = [load.level for load in tried]
    assert len(levels) <= scale.steps
    assert len(set(levels)) == len(levels)
    assert all(scale.least <= level <= scale.most for level in levels)
    met, missed = highest_held(tried), lowest_broken(tried)
    assert met is None or missed is None or met.level < missed.level


def test_without_a_met_load_it_ends_at_the_lowest():
    tried = searched(RATES, lambda rate: False)
    assert [load.level for load in tried] == [30, 15, 7.5, 5]
    assert highest_held(tried) is None
    assert lowest_broken(tried) == (5, False)


@pytest.mark.parametrize(
    ("capacity", "levels"),
    [(100, [30, 60, 120, 84.9, 101, 92.6]), (20, [30, 15, 21.2, 17.8, 19.4])],
)
def test_it_doubles_and_then_bisects(capacity, levels):
    assert [load.level for load in searched(RATES, lambda r: r <= capacity)] == levels


def test_it_stops_after_the_maximum_number_of_steps():
    scale = Scale(first=30, least=5, most=4000, steps=3)
    assert len(searched(scale, lambda rate: rate <= 100)) == 3
