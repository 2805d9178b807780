"""Copies with short GOPs are advised where they pay, by the rule that is stated."""

import numpy as np
import pytest

from headrace.sampling.reencode import reencode
from sampling.compared import compared

HD = 1280 * 720


def advice(gops, *, pixels=HD, target=None, later=2000):
    lengths = np.array(gops)
    now = compared(lengths, later=later)["look-ahead"]
    return reencode(lengths, now, pixels=pixels, target=target)


def test_long_gops_that_do_not_fit_are_worth_copying():
    found = advice(np.full(4000, 250))
    assert found.pays
    assert found.after >= 1.5 * found.before
    assert found.amplification_after < found.amplification_before
    # Bytes of a frame are 3000, so it has 1000 pixels.
    assert found.disk_bytes == 4000 * 250 * 1000 * 0.028
    assert found.epochs == pytest.approx(found.seconds / (1e6 / found.before - 1e6 / found.after))


def test_making_them_takes_every_frame_once():
    """2 ms to decode, 1 ms to convert, and 4 times the decoding of a small frame, on 2 cores."""
    small = 0.002 * 2 * 1000 / HD
    assert advice(np.full(100, 250)).seconds == pytest.approx(100 * 250 * (0.003 + 4 * small) / 2)


@pytest.mark.parametrize(
    ("gops", "options", "why"),
    [
        (np.full(4000, 12), {}, "GOPs are short already: 12 frames"),
        (np.full(4000, 250), {"target": 5}, "look-ahead reaches 5 frames/s as it is"),
        (np.full(10, 30), {"later": 300, "pixels": 1000}, "times as fast, too little"),
    ],
)
def test_what_does_not_pay_says_why(gops, options, why):
    found = advice(gops, **options)
    assert not found.pays
    assert why in found.why_not
