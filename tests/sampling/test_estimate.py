"""What is measured is what was put in."""

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.sampling.bias import mate_lags
from headrace.sampling.bursts import Bursts
from headrace.sampling.estimate import burst_correlation, measured_mate_lags
from headrace.sampling.frames import Permutation, Uniform
from headrace.sampling.population import Population
from sampling.checks import binomial_bounds


def bursts(rng, rho: float, *, videos: int = 20, per_video: int = 4, dims: int = 3):
    """Features, bursts and videos of bursts of 2 to 5 frames that correlate by rho."""
    sizes = rng.integers(2, 6, videos * per_video)
    burst = np.repeat(np.arange(len(sizes)), sizes)
    shared = rng.normal(size=(len(sizes), dims))[burst]
    features = np.sqrt(rho) * shared + np.sqrt(1 - rho) * rng.normal(size=shared.shape)
    return features, burst, burst // per_video


@pytest.mark.parametrize("videos", [5, 30])
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.8])
def test_the_interval_holds_the_true_correlation_19_times_out_of_20(rho, videos):
    rng = np.random.default_rng(5)
    found = [burst_correlation(*bursts(rng, rho, videos=videos)) for _ in range(200)]
    held = sum(each.low <= rho <= each.high for each in found)
    low, high = binomial_bounds(200, 0.95, 1e-4)
    assert low <= held <= high
    assert all(each.low <= each.value <= each.high for each in found)
    values = np.array([each.value for each in found])
    assert values.mean() == pytest.approx(rho, abs=0.02)


def test_frames_that_are_alike_in_a_burst_correlate_fully():
    features = np.repeat(np.random.default_rng(6).normal(size=(20, 4)), 3, axis=0)
    burst = np.repeat(np.arange(20), 3)
    assert burst_correlation(features, burst, burst // 2).value == pytest.approx(1)


def test_the_order_of_frames_does_not_matter():
    rng = np.random.default_rng(7)
    features, burst, video = bursts(rng, 0.5)
    mixed = rng.permutation(len(burst))
    expected = burst_correlation(features, burst, video)
    found = burst_correlation(features[mixed], burst[mixed] * 7, video[mixed])
    assert (found.value, found.low) == (pytest.approx(expected.value), pytest.approx(expected.low))


@pytest.mark.parametrize(
    ("features", "burst", "video", "message"),
    [
        (np.arange(4.0), [0, 0, 1, 1], [0, 0, 0, 0], "at least 2 videos are needed"),
        (np.arange(4.0), [0, 0, 1, 1], [0, 0, 1, 1], "got 1 bursts of 2 frames"),
        (np.arange(6.0), [0, 1, 2, 3, 4, 4], [0, 0, 1, 1, 2, 2], "one of them of 2 frames"),
        (np.zeros(8), np.arange(8) // 2, np.arange(8) // 4, "all features are alike"),
    ],
)
def test_too_little_to_estimate_from_is_refused(features, burst, video, message):
    with pytest.raises(ConfigError, match=message):
        burst_correlation(features[:, None], np.array(burst), np.array(video))


@pytest.mark.parametrize("lanes", [32, 48, 10])
def test_mates_are_counted_where_bursts_deliver_them(lanes):
    population = Population.of([np.full(16, 8)] * 256)
    order = Bursts(frames_per_burst=8, lanes=lanes).order(population, 0)
    gops = population.gop_of(order[:]).reshape(-1, 32)
    expected = mate_lags(8, lanes, 32)
    found = measured_mate_lags(gops, population.gop_lengths, len(expected))
    assert found == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("sampler", [Uniform(), Permutation()])
def test_frames_that_meet_by_chance_are_no_mates(sampler):
    population = Population.of([np.full(16, 100)] * 4)
    gops = population.gop_of(sampler.order(population, 0)[:]).reshape(-1, 32)
    assert np.abs(measured_mate_lags(gops, population.gop_lengths, 4)).max() < 0.1
