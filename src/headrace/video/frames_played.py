"""Frames played at times in seconds, by exact arithmetic."""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.video.stream_index import StreamIndex
from headrace.video.timebase import early_seconds, exact_number

Seconds = Fraction | float | str
"""A time as written: 1.5, "3/2", or exactly, as a Fraction. It counts as `pts_seconds`, on the
file's own timeline, not from the first frame."""

_MAX_FRAMES = 1 << 26


def played_range(index: StreamIndex) -> tuple[Fraction, Fraction]:
    """Return [start, stop) of the seconds in which a stream shows frames."""
    end = int(index.pts[-1]) + max(1, int(index.duration[-1]))
    return int(index.pts[0]) * index.info.time_base, end * index.info.time_base


def grid_bounds(index: StreamIndex) -> NDArray[np.int64]:
    """Return the ticks at which frames start for a grid of times, and the end of the last frame.

    All but the first are early, by the rule of `frames_played_at`, in whole ticks. Otherwise a grid
    point within the container's rounding would belong to the frame before, or lie after the last.
    """
    bounds = np.append(index.pts, index.pts[-1] + max(1, int(index.duration[-1])))
    bounds[1:] = np.maximum(bounds[1:] - int(_early(index) // index.info.time_base), bounds[0] + 1)
    return bounds


def first_at(index: StreamIndex, seconds: Fraction) -> int:
    """Return the first frame that starts at or after a time, by the rule of `frames_played_at`.

    Returns the number of frames if all start before it.
    """
    tick = -(-(seconds - _early(index)) // index.info.time_base)
    return int(np.searchsorted(index.pts, int(tick), "left"))


def frames_played_at(index: StreamIndex, seconds: Iterable[object]) -> NDArray[np.int64]:
    """Return the frame shown at each time, int64.

    Containers round times to ticks, so a frame counts as shown from a microsecond before its time,
    or from one tick before if frames last four ticks or more.

    Raises:
        ConfigError: a time is not a number, or no frame is shown then.
    """
    ticks = [_tick(index, exact_number("seconds", value)) for value in seconds]
    return np.array([index.index_at(tick) for tick in ticks], np.int64)


def frames_played_between(
    index: StreamIndex, start: object, stop: object | None, fps: object | None
) -> NDArray[np.int64]:
    """Return the frames shown in [start, stop) seconds, int64; None stops at the end.

    With `fps`, the frames shown at start, start + 1 / fps, ..., for any rate of the video: frames
    may repeat or be skipped.

    Raises:
        ConfigError: an argument is not a number, or the range is reversed or out of range.
    """
    first, shown_until = exact_number("start_seconds", start), played_range(index)[1]
    end = shown_until if stop is None else exact_number("stop_seconds", stop)
    if first > end:
        raise ConfigError(
            f"start_seconds must be at most stop_seconds, got {float(first):g} and "
            f"{float(end):g} s of {index.source}"
        )
    begin = index.index_at(_tick(index, first))
    if end > shown_until + _early(index):
        raise _not_shown(index, end)
    if first == end:
        return np.zeros(0, np.int64)
    if fps is None:
        # A frame that starts at `stop`, within rounding, is excluded.
        return np.arange(begin, max(begin + 1, first_at(index, end)), dtype=np.int64)
    rate = exact_number("fps", fps)
    if rate <= 0:
        raise ConfigError(f"fps must be above 0, got {fps!r}")
    until = min(end, int(grid_bounds(index)[-1]) * index.info.time_base)
    count = max(1, -((first - until) * rate // 1))  # rounded up
    if count > _MAX_FRAMES:
        raise ConfigError(
            f"{float(rate):g} frames a second from {float(first):g} to {float(end):g} s are "
            f"{count:,}; request fewer than {_MAX_FRAMES:,}"
        )
    return frames_played_at(index, (first + k / rate for k in range(int(count))))


def times_of(seconds: object) -> list[object]:
    """Return the times of a number, an iterable, an array or a tensor, as a list."""
    if isinstance(seconds, np.ndarray):
        return list(seconds.ravel() if seconds.ndim < 2 else seconds)
    if hasattr(seconds, "tolist"):  # a tensor, or a NumPy scalar
        seconds = seconds.tolist()
    if isinstance(seconds, str) or not isinstance(seconds, Iterable):
        return [seconds]
    return list(seconds)


def _early(index: StreamIndex) -> Fraction:
    ticks = int(index.pts[-1] - index.pts[0]) + int(index.duration[-1])
    return early_seconds(len(index), ticks, index.info.time_base)


def _tick(index: StreamIndex, seconds: Fraction) -> int:
    """Return the tick of a time.

    Raises:
        ConfigError: no frame is shown then.
    """
    start, stop = played_range(index)
    early = _early(index)
    if not start - early <= seconds < stop:
        raise _not_shown(index, seconds)
    return int((seconds + early) // index.info.time_base)


def _not_shown(index: StreamIndex, seconds: Fraction) -> ConfigError:
    start, stop = played_range(index)
    return ConfigError(
        f"{float(seconds):g} s is out of range: {index.source} shows frames from "
        f"{float(start):g} s until {float(stop):g} s"
    )
