"""Intervals contain the true difference about as often as their level states."""

import numpy as np
import pytest

from headrace.profiling.comparison.estimate import (
    DRAWS,
    MIN_STEPS,
    block_length,
    quantile_estimate,
    ratio_estimate,
)
from headrace.sampling.bias import resampled_sums
from profiling.comparison.simulated import series

REPEATS = 60


def coverage(estimate, correlation, truth):
    """Return how often the interval of the ratio of two figures contains the true ratio."""
    count = 0
    for repeat in range(REPEATS):
        a, b = ([repeat, side] for side in range(2))
        first = estimate(series(100.0, a, correlation=correlation), 2 * repeat)
        other = estimate(series(100.0 * truth, b, correlation=correlation), 2 * repeat + 1)
        low, high = np.quantile(other.deviations - first.deviations, (0.025, 0.975))
        shift = np.log(other.value / first.value)
        count += shift + low <= np.log(truth) <= shift + high
    return count / REPEATS


def per_frame(values, seed):
    return ratio_estimate(values, np.full(len(values), 16.0), seed)


def median(values, seed):
    return quantile_estimate(values, 0.5, seed)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
@pytest.mark.parametrize("estimate", [per_frame, median])
def test_an_interval_contains_the_true_difference_about_as_often_as_its_level(
    estimate, correlation
):
    assert 0.89 <= coverage(estimate, correlation, truth=1.1) <= 1.0


def test_an_interval_of_a_high_percentile_does_too():
    assert 0.89 <= coverage(lambda v, s: quantile_estimate(v, 0.95, s), 0.5, truth=1.1) <= 1.0


def test_intervals_without_blocks_would_be_too_narrow():
    values = series(100.0, 1, steps=1000, correlation=0.9)
    block = block_length(values)
    assert block > 5
    columns = np.stack([values, np.ones(1000)], axis=1)
    spreads = [
        np.std(sums[:, 0] / sums[:, 1])
        for sums in (resampled_sums(columns, size, DRAWS, 0) for size in (1, block))
    ]
    assert spreads[1] > 2 * spreads[0]


def test_blocks_are_short_for_uncorrelated_neighbors():
    lengths = [block_length(series(1.0, k, steps=400, correlation=0.0)) for k in range(20)]
    assert np.median(lengths) == 7
    assert block_length(np.ones(50)) == 1
    assert block_length(np.arange(3.0)) == 1


def test_the_same_seed_gives_the_same_draws_and_sums_of_whole_blocks():
    columns = np.stack([np.arange(10.0), np.ones(10)], axis=1)
    first = resampled_sums(columns, 3, 50, 7)
    assert (first == resampled_sums(columns, 3, 50, 7)).all()
    assert not (first == resampled_sums(columns, 3, 50, 8)).all()
    assert (first[:, 1] == 12).all()


def test_figures_are_sums_over_sums_and_nearest_ranks():
    values = np.arange(1.0, 101.0)
    assert ratio_estimate(values, np.full(100, 2.0), 0).value == 5050 / 200
    assert quantile_estimate(values, 0.95, 0).value == 95.0
    assert quantile_estimate(values, 0.5, 0).value == 50.0
    assert ratio_estimate(np.zeros(0), np.zeros(0), 0) is None
    assert quantile_estimate(np.zeros(0), 0.5, 0) is None


def test_few_steps_have_no_interval():
    assert per_frame(series(1.0, 0, steps=MIN_STEPS - 1), 0).deviations is None
    assert per_frame(series(1.0, 0, steps=MIN_STEPS, correlation=0.0), 0).deviations is not None
    assert per_frame(np.zeros(100), 0).deviations is None
