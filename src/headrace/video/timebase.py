"""Ticks and exact seconds, and repairs of decreasing ticks.

Times stay ticks or Fractions until they are reported.
"""

import re
from bisect import bisect_right
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


_RESTART_SECONDS: Final = Fraction(1, 10)
"""Seconds: times that decrease by more belong to another clock, by FFmpeg's rule."""
_MAX_WRONG: Final = 10
"""Maximum length of a run of wrong times, in packets."""


def make_ascending(ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return non-decreasing times of frames, int64, in presentation order.

    Times of a longest ascending subsequence stay; others are interpolated between their neighbours.
    Costs nothing in the usual case of ascending times.
    """
    if len(ticks) < 2 or (np.diff(ticks) >= 0).all():
        return ticks
    ascent = _longest_ascent(ticks.tolist())
    positions = np.arange(len(ticks))
    return np.interp(positions, ascent, ticks[ascent]).astype(np.int64)


def clock_shifts(
    dts: NDArray[np.int64], time_base: Fraction, *, period: int = 0
) -> NDArray[np.int64]:
    """Return the ticks to add to each packet's times so that they continue after a clock restart.

    A concatenated file has several clocks: the first packet of a part follows the last packet of
    the part before, as in FFmpeg's linear read (`ts_discontinuity_process` of
    `fftools/ffmpeg_demux.c`). A jump of only a few packets is not a new clock.

    Args:
        dts: int64 [packets], in decoding order; `NO_PTS` for a packet without dts.
        time_base: Seconds per tick.
        period: Ticks after which the clock wraps; 0: never. FFmpeg assumes that times far before
            the first one have wrapped.
    """
    shifts = np.zeros(len(dts), np.int64)
    timed = np.flatnonzero(dts != NO_PTS)
    steps = np.diff(dts[timed])
    wrapped = np.round(steps / period).astype(np.int64) * period if period else np.zeros_like(steps)
    steps -= wrapped
    if (steps > 0).any():
        ticks = np.append(0, steps).cumsum()
        step = int(np.median(steps[steps > 0]))
        for position in np.flatnonzero(steps < -int(_RESTART_SECONDS / time_base)).tolist():
            if _is_restart(ticks, position + 1, step):
                wrapped[position] += steps[position] - step
    shifts[timed[1:]] = -wrapped
    return shifts.cumsum()


def _is_restart(ticks: NDArray[np.int64], first: int, step: int) -> bool:
    """Return whether the decrease at `first` is a restart, not a run of wrong times."""
    after, before = ticks[first : first + 1 + _MAX_WRONG], ticks[max(0, first - _MAX_WRONG) : first]
    decrease = before[-1] - after[0]
    recovers = after - after[0] - step * np.arange(len(after)) > decrease // 2
    # True if an earlier packet, continued at its pace, predicts the time here.
    is_predicted = before + step * np.arange(len(before), 0, -1) <= after[0] + step
    return not (recovers.any() or is_predicted.any())


def _longest_ascent(values: list[int]) -> list[int]:
    """Return the positions of a longest non-decreasing subsequence."""
    ends: list[int] = []
    """Smallest last value of a subsequence of each length."""
    last: list[int] = []
    before: list[int] = []
    for position, value in enumerate(values):
        length = bisect_right(ends, value)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        last[length : length + 1] = [position]
    position, run = last[-1], list[int]()
    while position >= 0:
        run.append(position)
        position = before[position]
    return run[::-1]
