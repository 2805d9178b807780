"""Ticks and exact seconds: times stay ticks or Fractions until they are reported."""

import re
from contextlib import suppress
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError

NO_PTS: Final = int(np.iinfo(np.int64).min)
"""Placeholder of a time that the container does not have."""

_WRITTEN = Fraction(1, 10**6)
"""Rounding error in seconds of times written as decimals: 1/3 as 0.333333."""
_HUGE: Final = re.compile(r"[eE][+-]?[0-9_]{4}")
"""An exponent beyond any float: a Fraction of it would take unbounded time and memory."""
_FINE_TICKS = 4
"""Ticks per frame from which times may be off by one tick."""


def to_seconds(ticks: int, time_base: Fraction) -> Fraction:
    """Return `ticks` as exact seconds; `time_base` is the seconds per tick."""
    return ticks * time_base


def float_seconds(ticks: NDArray[np.int64], time_base: Fraction) -> NDArray[np.float64]:
    """Return `ticks` as float64 seconds, for reports and the public API."""
    seconds: NDArray[np.float64] = ticks * np.float64(time_base)
    return seconds


def to_ticks(seconds: Fraction | float | int, time_base: Fraction) -> int:
    """Return the last tick at or before `seconds`.

    A float counts with its exact binary value: pass a Fraction to hit a frame boundary.
    """
    exact = Fraction(seconds) / time_base
    return exact.numerator // exact.denominator


def early_seconds(num_frames: int, ticks: int, time_base: Fraction) -> Fraction:
    """Return how long before its time a frame counts as shown, in seconds.

    It is one tick if frames last four ticks or more, because containers round times to ticks: in
    Matroska, frames at 60 per second are 17, 16 and 17 ms apart. It is at least a microsecond,
    because times are written as decimals.

    Args:
        num_frames: Number of frames.
        ticks: Total duration of the frames.
        time_base: Seconds per tick.
    """
    is_fine = ticks >= _FINE_TICKS * num_frames
    return max(_WRITTEN, time_base) if is_fine else _WRITTEN


def format_rate(rate: Fraction | None) -> str:
    """Return frames per second as text: `25`, `29.97`, or `?` if unknown."""
    return "?" if rate is None else f"{float(rate):.3f}".rstrip("0").rstrip(".")


def exact_number(name: str, value: object) -> Fraction:
    """Return a number exactly as written: 0.1 is a tenth, 29.97 is 2997/100, "30000/1001" itself.

    Raises:
        ConfigError: it is not a finite number; the message starts with `name`.
    """
    is_number = isinstance(value, str | int | float | Fraction | np.number)
    if is_number and not isinstance(value, bool) and not _HUGE.search(str(value)):
        with suppress(ValueError, ZeroDivisionError):
            return value if isinstance(value, Fraction) else Fraction(str(value))
    raise ConfigError(
        f"{name} must be a finite number, such as 8, 0.5 or '30000/1001', got {value!r}"
    )
