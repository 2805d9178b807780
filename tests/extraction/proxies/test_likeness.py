"""PSNR and SSIM of brightness, against their own formulas."""

import av
import numpy as np
import pytest

from headrace.extraction.proxies.likeness import Likeness

SIZE = (32, 48)


def frame(luma):
    planes = np.full((SIZE[0] * 3 // 2, SIZE[1]), 128, np.uint8)
    planes[: SIZE[0]] = luma
    return av.VideoFrame.from_ndarray(planes, format="yuv420p")


def test_psnr_is_that_of_the_mean_error_and_the_worst_that_of_a_frame():
    likeness = Likeness(SIZE, "yuv420p")
    for error in (0, 2, 4):
        likeness.compare(frame(100), frame(100 + error))
    likeness.finish()
    errors = np.array([0, 4, 16])
    assert likeness.psnr == {
        "mean": pytest.approx(10 * np.log10(255**2 / errors.mean()), abs=1e-3),
        "worst": pytest.approx(10 * np.log10(255**2 / errors.max()), abs=1e-3),
    }


def test_equal_pictures_have_100_decibel_and_1():
    likeness = Likeness(SIZE, "yuv420p")
    likeness.compare(frame(100), frame(100))
    likeness.finish()
    assert likeness.psnr == {"mean": 100, "worst": 100}
    assert likeness.ssim == {"mean": 1, "worst": 1}


def test_ssim_falls_where_structure_is_lost():
    steps = np.tile(np.arange(SIZE[1], dtype=np.uint8) % 8 * 30, (SIZE[0], 1))
    likeness = Likeness(SIZE, "yuv420p")
    likeness.compare(frame(steps), frame(steps))
    likeness.compare(frame(steps), frame(105))
    likeness.finish()
    assert likeness.ssim["worst"] < 0.1
    assert likeness.ssim["mean"] == pytest.approx((1 + likeness.ssim["worst"]) / 2, abs=1e-4)
