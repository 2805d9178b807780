"""One type of percentile: exact, and silent where the samples are too few."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.distribution import Distribution


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=1000))
def test_percentiles_are_nearest_rank(samples: list[float]) -> None:
    found = Distribution.of(samples)
    assert found is not None
    ranked = sorted(samples)
    for percent, value in ((50, found.p50), (90, found.p90), (95, found.p95), (99, found.p99)):
        if value is not None:
            assert value == ranked[math.ceil(percent * len(ranked) / 100) - 1]
    assert (found.minimum, found.maximum, found.count) == (ranked[0], ranked[-1], len(ranked))


@pytest.mark.parametrize(
    ("samples", "has_p95", "has_p99"),
    [
        (1, False, False),
        (89, False, False),
        (90, True, False),
        (458, True, False),
        (459, True, True),
    ],
)
def test_percentiles_too_few_samples_can_show_are_withheld(
    samples: int, has_p95: bool, has_p99: bool
) -> None:
    found = Distribution.of(range(samples))
    assert found is not None
    assert (found.p95 is not None, found.p99 is not None) == (has_p95, has_p99)


def test_no_samples_have_no_distribution() -> None:
    assert Distribution.of([]) is None


def test_spread_is_that_of_the_samples_at_hand() -> None:
    found = Distribution.of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert found is not None
    assert (found.mean, found.std) == (5.0, 2.0)
