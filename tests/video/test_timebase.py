"""Numbers as they are written, from tables and commands."""

from fractions import Fraction

import pytest

from headrace.errors import ConfigError
from headrace.video.timebase import exact_number


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("30000/1001", Fraction(30000, 1001)),
        (0.1, Fraction(1, 10)),
        ("1e3", Fraction(1000)),
        ("-2.5E-3", Fraction(-1, 400)),
        (1e308, Fraction(10**308)),
    ],
)
def test_a_number_is_exact(value, number):
    assert exact_number("rate", value) == number


@pytest.mark.parametrize(
    "value",
    ["1e999999999", "1E-999999999", "1e+99_99", "1/0", "nan", "inf", "", True, None, "9" * 9999],
)
def test_what_is_no_number_or_has_no_end_is_refused(value):
    with pytest.raises(ConfigError, match="rate must be a finite number"):
        exact_number("rate", value)
