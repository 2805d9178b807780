"""Sums of samples resize as swscale and Pillow do."""

import numpy as np
import pytest
from PIL import Image

from headrace.decode.resampling import (
    antialiased_cubic,
    antialiased_linear,
    area,
    cubic,
    linear,
)

KERNELS = (area, linear, cubic, antialiased_linear, antialiased_cubic)


def resized(samples, results, kernel, shift=0):
    taps = kernel(len(samples), results, shift)
    return (np.asarray(samples, float)[taps.index] * taps.weights).sum(1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("sides", [(7, 3), (12, 12), (5, 11), (1, 4), (9, 1)])
def test_what_is_even_stays_so_and_no_sample_from_outside_is_asked_for(kernel, sides):
    samples, results = sides
    taps = kernel(samples, results)
    assert taps.index.shape == taps.weights.shape
    assert len(taps.index) == results
    assert taps.index.min() >= 0
    assert taps.index.max() < samples
    np.testing.assert_allclose(resized([5.0] * samples, results, kernel), 5)


def test_area_is_the_average_of_what_each_result_covers():
    np.testing.assert_allclose(resized([1, 3, 5, 9], 2, area), [2, 7])
    # A third of the middle sample of five goes one way: 5 samples make 2.5 for each result.
    np.testing.assert_allclose(resized([0, 0, 10, 0, 0], 2, area), [2, 2])


def test_linear_goes_straight_from_sample_to_sample_and_stays_at_the_border():
    np.testing.assert_allclose(resized([0, 8], 4, linear), [0, 2, 6, 8])


def test_a_shift_moves_results_by_parts_of_a_sample():
    np.testing.assert_allclose(resized([0, 8, 16], 3, linear, 0.25), [2, 10, 16])


@pytest.mark.parametrize(
    ("kernel", "name"), [(antialiased_linear, "BILINEAR"), (antialiased_cubic, "BICUBIC")]
)
@pytest.mark.parametrize("results", [9, 40, 97])
def test_antialiased_kernels_are_those_of_pillow(kernel, name, results):
    samples = np.random.default_rng(3).uniform(0, 255, 64).astype(np.float32)
    image = Image.fromarray(samples[None])  # of 32-bit numbers, which Pillow does not round
    expected = np.asarray(image.resize((results, 1), getattr(Image.Resampling, name)))[0]
    np.testing.assert_allclose(resized(samples, results, kernel), expected, atol=1e-3)
