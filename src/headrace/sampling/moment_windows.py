"""Windows of moments around key moments, the frames of moments, and samplers of windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.epoch_order import EpochOrder
from headrace.sampling.population import Population
from headrace.sampling.sampler import Sampler, SamplerTraits, check_samples

Sync = Literal["index", "nearest", "previous"]
"""The frames of one moment: those of the same `index`; the `nearest` in time to the frame of the
reference; or the `previous`, the latest not after it, as in a live system."""

OnMissing = Literal["raise", "drop", "mask", "repeat"]
"""Rule for a moment without a camera's frame: an error; the moment is dropped for all cameras; the
frame is black and marked; or the camera's last frame is repeated and marked."""

MISSING = -1
"""In place of a frame index: the camera has no frame."""

SLACK_SECONDS = 1e-6
"""Times that differ by less are equal: they are sums of float64. A tick of 90 kHz is 11e-6."""


def same_index(length: int, frames: int) -> NDArray[np.int64]:
    """Return int64 [length]: frame k for moment k; `MISSING` beyond the number of `frames`."""
    moments = np.arange(length)
    return np.where(moments < frames, moments, MISSING)


def nearest(
    moments: NDArray[np.float64], times: NDArray[np.float64], tolerance: float
) -> NDArray[np.int64]:
    """Return int64 [moments]: the frame nearest in time; of two equally near, the earlier.

    Args:
        moments: float64 [M], seconds, ascending.
        times: float64 [N], seconds, ascending: capture time of each frame, by the same clock.
        tolerance: Seconds; `MISSING` where no frame is within it.
    """
    _check(times, tolerance)
    after = np.searchsorted(times, moments).clip(0, len(times) - 1)
    before = (after - 1).clip(0)
    is_before = np.abs(times[before] - moments) <= np.abs(times[after] - moments) + SLACK_SECONDS
    return _within(np.where(is_before, before, after), moments, times, tolerance)


def previous(
    moments: NDArray[np.float64], times: NDArray[np.float64], tolerance: float
) -> NDArray[np.int64]:
    """Return int64 [moments]: the latest frame not after it; arguments as for `nearest`."""
    _check(times, tolerance)
    last = np.searchsorted(times, moments + SLACK_SECONDS, side="right") - 1
    return np.where(last < 0, MISSING, _within(last.clip(0), moments, times, tolerance))


def repeated(frames: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return `frames`, int64 [M], with each missing one replaced by the last before it.

    Before the first frame it is the first; where all are missing, nothing changes.
    """
    present = np.flatnonzero(frames != MISSING)
    if not len(present):
        return frames
    last = np.searchsorted(present, np.arange(len(frames)), side="right") - 1
    filled: NDArray[np.int64] = frames[present[last.clip(0)]]
    return filled


def _within(
    frames: NDArray[np.int64],
    moments: NDArray[np.float64],
    times: NDArray[np.float64],
    tolerance: float,
) -> NDArray[np.int64]:
    return np.where(np.abs(times[frames] - moments) <= tolerance + SLACK_SECONDS, frames, MISSING)


def _check(times: NDArray[np.float64], tolerance: float) -> None:
    if not tolerance >= 0:
        raise ConfigError(f"a tolerance must be >= 0, got {tolerance}")
    if not len(times):
        raise ConfigError("a camera needs at least one frame to be aligned")


RowsOf = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""int64 [K, T]: the moments of each of K windows, as indices in the clip; and bool [K, T]: those in
place of moments that the clip does not have."""


def history(keys: NDArray[np.int64], num_moments: int, stride: int) -> RowsOf:
    """Return the `num_moments` moments, `stride` apart, that end at each key.

    The clip's first moment replaces those before its start.

    Args:
        keys: int64 [K]: indices of moments in the clip.
        num_moments: T.
        stride: 1 means consecutive.
    """
    rows = keys[:, None] - np.arange(num_moments)[::-1] * stride
    return rows.clip(0), rows < 0


def at_deltas(
    keys: NDArray[np.int64],
    seconds: NDArray[np.float64],
    deltas: Sequence[float],
    tolerance: float,
) -> RowsOf:
    """Return the moments nearest to `deltas` after each key.

    Beyond the tolerance, the nearest is marked as a replacement.

    Args:
        keys: int64 [K]: indices of moments in the clip.
        seconds: float64 [M], ascending: time of each moment of the clip.
        deltas: T times in seconds; below 0: before the key.
        tolerance: Seconds.
    """
    wanted = seconds[keys][:, None] + np.array(deltas, np.float64)
    rows = nearest(wanted.ravel(), seconds, np.inf).reshape(wanted.shape)
    return rows, np.abs(seconds[rows] - wanted) > tolerance + SLACK_SECONDS


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowSampler:
    """Sampler of windows: another sampler's key moments, as the frames of their windows."""

    sampler: Sampler
    """Samples key moments as frames, and clips as videos."""
    keys: Population
    """The key moments of all clips."""
    frames_of: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    """Key moments, int64 [n] → int64 [n, num_frames]: ids of the frames of their windows."""
    num_frames: int
    """Frames of a window, over all cameras."""
    checksum: int
    """Checksum of the frames of all windows."""

    @property
    def traits(self) -> SamplerTraits:
        """The sampler's traits, for these windows; windows that overlap share frames."""
        traits = self.sampler.traits
        return replace(
            traits,
            identity=f"{traits.identity} of windows {self.checksum}",
            has_replacement=True,
            num_frames=self.num_frames,
            needs_durations=False,
            frames_needed=1,
            spans_videos=True,
        )

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: int64 [n, num_frames]; its rows are the keys.

        Raises:
            ConfigError: the sampler cannot sample from these key moments.
        """
        del population  # the frames are known since the windows were made
        order = self.sampler.order(self.keys, epoch)

        def keys_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            keys = order.frames_at(slots)
            check_samples(keys, self.sampler, self.keys)
            return keys

        return replace(
            order, frames_at=lambda slots: self.frames_of(keys_at(slots)), rows_at=keys_at
        )
