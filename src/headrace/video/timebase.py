"""Ticks and exact seconds: time stays in ticks or Fraction until it is shown."""

from contextlib import suppress
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError

NO_PTS: Final = int(np.iinfo(np.int64).min)
"""Stands for a time the container does not give."""

_WRITTEN = Fraction(1, 10**6)
"""Seconds by which a time may be off that was written as a decimal: 1/3 as 0.333333."""
_FINE_TICKS = 4
"""Where frames are shown for so many ticks, their times may have been rounded to one."""


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


def early_seconds(num_frames: int, ticks: int, time_base: Fraction) -> Fraction:
    """Return how long before its time a frame counts as shown, in seconds.

    Containers round times to ticks, Matroska to milliseconds, so that frames of 60 a second come
    17, 16, 17 ms apart. So it is one tick where frames are shown for four or more, and in any case
    a microsecond, as times are written as decimals.

    Args:
        num_frames: How many frames there are.
        ticks: How long all of them are shown.
        time_base: Seconds per tick.
    """
    is_fine = ticks >= _FINE_TICKS * num_frames
    return max(_WRITTEN, time_base) if is_fine else _WRITTEN


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
