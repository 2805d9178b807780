"""The search finds what a system can carry, in few steps, whatever system it is."""

from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bench.ladder import Scale, highest_held, lowest_broken, next_level

Tried = namedtuple("Tried", ["level", "holds"])
RATES = Scale(first=30, least=5, most=4000)
STREAMS = Scale(first=1, least=1, most=64, is_whole=True, close=1.0)


def searched(scale, holds):
    """All that was tried on a system that holds what `holds` says."""
    tried = []
    while (level := next_level(tried, scale)) is not None:
        tried.append(Tried(level, holds(level)))
    return tried


@given(capacity=st.floats(5, 4000))
def test_a_rate_is_found_within_a_tenth_in_few_steps(capacity):
    tried = searched(RATES, lambda rate: rate <= capacity)
    found, broken = highest_held(tried), lowest_broken(tried)
    assert len(tried) <= 12
    assert found.level <= capacity
    if broken is None:
        assert found.level == 4000
    else:
        assert capacity < broken.level <= found.level * 1.12, "rounding is in it"


@given(capacity=st.integers(1, 64))
def test_a_number_of_streams_is_found_exactly(capacity):
    tried = searched(STREAMS, lambda streams: streams <= capacity)
    assert highest_held(tried) == (capacity, True)
    assert lowest_broken(tried) == (None if capacity == 64 else (capacity + 1, False))
    assert all(each.level == int(each.level) for each in tried)


@given(scale=st.sampled_from([RATES, STREAMS]), seed=st.randoms(use_true_random=False))
def test_it_ends_and_never_asks_twice_also_where_systems_contradict_themselves(scale, seed):
    tried = searched(scale, lambda level: seed.random() < 0.5)
    levels = [each.level for each in tried]
    assert len(levels) <= scale.steps
    assert len(set(levels)) == len(levels)
    assert all(scale.least <= level <= scale.most for level in levels)
    held, broken = highest_held(tried), lowest_broken(tried)
    assert held is None or broken is None or held.level < broken.level


def test_where_nothing_holds_it_ends_at_the_least():
    tried = searched(RATES, lambda rate: False)
    assert [each.level for each in tried] == [30, 15, 7.5, 5]
    assert highest_held(tried) is None
    assert lowest_broken(tried) == (5, False)


@pytest.mark.parametrize(
    ("capacity", "levels"),
    [(100, [30, 60, 120, 84.9, 101, 92.6]), (20, [30, 15, 21.2, 17.8, 19.4])],
)
def test_it_doubles_and_then_halves(capacity, levels):
    assert [each.level for each in searched(RATES, lambda r: r <= capacity)] == levels


def test_it_stops_after_as_many_steps_as_are_allowed():
    scale = Scale(first=30, least=5, most=4000, steps=3)
    assert len(searched(scale, lambda rate: rate <= 100)) == 3
