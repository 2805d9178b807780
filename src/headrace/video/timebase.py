"""Ticks and exact seconds: time stays in ticks or Fraction until it is shown."""

from contextlib import suppress
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError


def to_seconds(ticks: int, time_base: Fraction) -> Fraction:
    """Return `ticks` as exact seconds.

    `time_base` is the length of one tick in seconds.
    """
    return ticks * time_base


def float_seconds(ticks: NDArray[np.int64], time_base: Fraction) -> NDArray[np.float64]:
    """Return `ticks` as float64 seconds, for the border where a user reads them."""
    seconds: NDArray[np.float64] = ticks * np.float64(time_base)
    return seconds


def to_ticks(seconds: Fraction | float | int, time_base: Fraction) -> int:
    """Return the last tick at or before `seconds`.

    A float is taken at its exact binary value: pass a Fraction where a boundary must be hit.
    """
    exact = Fraction(seconds) / time_base
    return exact.numerator // exact.denominator


def format_rate(rate: Fraction | None) -> str:
    """Return frames per second for people: `25`, `29.97`, or `?` when it is not known."""
    if rate is None:
        return "?"
    return f"{float(rate):.3f}".rstrip("0").rstrip(".")


def exact_number(name: str, value: object) -> Fraction:
    """Return a number as it is written: 0.1 is a tenth, 29.97 is 2997/100, "30000/1001" itself.

    Raises:
        ConfigError: it is no finite number; `name` says what it was to be.
    """
    if isinstance(value, str | int | float | Fraction | np.number) and not isinstance(value, bool):
        with suppress(ValueError, ZeroDivisionError):
            return value if isinstance(value, Fraction) else Fraction(str(value))
    raise ConfigError(
        f"{name} must be a finite number, such as 8, 0.5 or '30000/1001', got {value!r}"
    )
