"""Which frame of a camera belongs to a moment: by the clocks of the cameras, within a tolerance."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError

Sync = Literal["index", "nearest", "previous"]
"""What belongs together: frames of the same `index`; the one `nearest` in time to a frame of the
reference; or the latest one that is not after it, as a live system would have it."""

OnMissing = Literal["raise", "drop", "mask", "repeat"]
"""What happens where a camera has no frame: an error, the moment is left out for all cameras, the
frame is left black and marked, or the camera's last frame comes again, marked."""

MISSING = -1

_SLACK_SECONDS = 1e-6
"""Times are sums of float64; what differs by less is the same. A tick of 90 kHz is 11e-6."""


def same_index(length: int, frames: int) -> NDArray[np.int64]:
    """Return int64 [length]: frame k for moment k; `MISSING` behind the `frames` there are."""
    moments = np.arange(length)
    return np.where(moments < frames, moments, MISSING)


def nearest(
    moments: NDArray[np.float64], times: NDArray[np.float64], tolerance: float
) -> NDArray[np.int64]:
    """Return int64 [moments]: the frame nearest in time; of two equally near, the earlier.

    Args:
        moments: float64 [M], seconds, ascending.
        times: float64 [N], seconds, ascending: when each frame was taken, by the same clock.
        tolerance: Seconds; no frame so near is `MISSING`.
    """
    _check(times, tolerance)
    after = np.searchsorted(times, moments).clip(0, len(times) - 1)
    before = (after - 1).clip(0)
    is_before = np.abs(times[before] - moments) <= np.abs(times[after] - moments) + _SLACK_SECONDS
    return _within(np.where(is_before, before, after), moments, times, tolerance)


def previous(
    moments: NDArray[np.float64], times: NDArray[np.float64], tolerance: float
) -> NDArray[np.int64]:
    """Return int64 [moments]: the latest frame that is not after it; arguments as for `nearest`."""
    _check(times, tolerance)
    last = np.searchsorted(times, moments + _SLACK_SECONDS, side="right") - 1
    return np.where(last < 0, MISSING, _within(last.clip(0), moments, times, tolerance))


def repeated(frames: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return `frames` int64 [M] with the last one there was in place of each that is missing.

    Before the first there is, it is the first; where there is none at all, nothing changes.
    """
    there = np.flatnonzero(frames != MISSING)
    if not len(there):
        return frames
    last = np.searchsorted(there, np.arange(len(frames)), side="right") - 1
    found: NDArray[np.int64] = frames[there[last.clip(0)]]
    return found


def _within(
    frames: NDArray[np.int64],
    moments: NDArray[np.float64],
    times: NDArray[np.float64],
    tolerance: float,
) -> NDArray[np.int64]:
    return np.where(np.abs(times[frames] - moments) <= tolerance + _SLACK_SECONDS, frames, MISSING)


def _check(times: NDArray[np.float64], tolerance: float) -> None:
    if not tolerance >= 0:
        raise ConfigError(f"a tolerance must be >= 0, got {tolerance}")
    if not len(times):
        raise ConfigError("a camera needs at least one frame to be aligned")
