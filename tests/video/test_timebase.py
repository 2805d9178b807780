"""Ticks and exact seconds."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.video.timebase import format_rate, to_seconds, to_ticks

BASES = st.sampled_from([Fraction(1, 90_000), Fraction(1001, 30_000), Fraction(1, 25)])


@given(ticks=st.integers(-(2**60), 2**60), time_base=BASES)
def test_seconds_turn_back_into_the_same_ticks(ticks, time_base):
    assert to_ticks(to_seconds(ticks, time_base), time_base) == ticks


@given(ticks=st.integers(-1000, 1000), time_base=BASES)
def test_between_two_ticks_the_earlier_counts(ticks, time_base):
    assert to_ticks(to_seconds(ticks, time_base) + time_base / 2, time_base) == ticks


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (Fraction(25), "25"),
        (Fraction(30000, 1001), "29.97"),
        (None, "?"),
        (Fraction(1, 3), "0.333"),
    ],
)
def test_rates_read_well(rate, text):
    assert format_rate(rate) == text
