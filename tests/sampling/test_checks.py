"""The tests of uniformity have the level and the power that is claimed for them."""

import numpy as np
import pytest

from sampling.checks import binomial_bounds, dkw_threshold, faults, g_threshold
from sampling.populations import uneven


def test_thresholds_for_20000_draws_in_50_cells():
    assert g_threshold(50) == pytest.approx(217.6, abs=0.05)
    assert binomial_bounds(20_000, 1 / 50, 1e-9 / 50) == (275, 540)
    assert dkw_threshold(20_000) == pytest.approx(0.0231, abs=0.00005)


def test_uniform_draws_of_another_generator_have_no_faults():
    population = uneven()
    total = population.num_frames
    rng = np.random.default_rng(11)
    for _ in range(50):
        draws = rng.integers(total, size=4000)
        assert faults(draws, population, np.full(total, 1 / total)) == []
