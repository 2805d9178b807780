"""Windows of moments before or around key moments, frames of moments, and samplers of windows."""

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
"""Assignment of a camera's frame to a moment: the frame with the same `index` as the reference's;
the `nearest` in time; or the `previous`, the latest frame not after it, as in a live system."""

OnMissing = Literal["raise", "drop", "mask", "repeat"]
"""Rule for a moment at which a camera has no frame: raise an error; drop the moment for all
cameras; mask: a black frame, marked; or repeat the camera's last frame, marked."""

MISSING = -1
"""Frame index of a camera without a frame."""

SLACK_SECONDS = 1e-6
"""Seconds below which two times are equal, because they are sums of float64; a 90 kHz tick is
11e-6."""


def same_index(length: int, frames: int) -> NDArray[np.int64]:
    """Return int64 [length]: frame k for moment k; `MISSING` from `frames` on."""
    moments = np.arange(length)
    return np.where(moments < frames, moments, MISSING)


def nearest(
    moments: NDArray[np.float64], times: NDArray[np.float64], tolerance: float
) -> NDArray[np.int64]:
    """Return int64 [M]: the frame nearest in time, the earlier of two equally near ones.

    Args:
        moments: float64 [M], ascending: times in seconds.
        times: float64 [N], ascending: capture time of each frame in seconds, on the same clock.
        tolerance: Max distance in seconds; `MISSING` if no frame is nearer.
    """
    _check(times, tolerance)
    after = np.searchsorted(times, moments).clip(0, len(times) - 1)
    before = (after - 1).clip(0)
    is_before = np.abs(times[before] - moments) <= np.abs(times[after] - moments) + SLACK_SECONDS
    return _within(np.where(is_before, before, after), moments, times, tolerance)


def previous(
    moments: NDArray[np.float64], times: NDArray[np.float64], tolerance: float
) -> NDArray[np.int64]:
    """Return int64 [M]: the latest frame not after each moment; arguments as for `nearest`."""
    _check(times, tolerance)
    last = np.searchsorted(times, moments + SLACK_SECONDS, side="right") - 1
    return np.where(last < 0, MISSING, _within(last.clip(0), moments, times, tolerance))


def repeated(frames: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return `frames`, int64 [M], with each missing frame replaced by the last one before it.

    Missing frames at the start are replaced by the first one. If all are missing, all stay missing.
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
        raise ConfigError(f"tolerance must be >= 0, got {tolerance}")
    if not len(times):
        raise ConfigError("a camera must have at least one frame to be aligned")


RowsOf = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""int64 [K, T]: moments of K windows, as indices in the clip; and bool [K, T]: whether the moment
replaces one that the clip does not have."""


def history(keys: NDArray[np.int64], num_moments: int, stride: int) -> RowsOf:
    """Return windows of `num_moments` moments, `stride` apart, that end with each key.

    The clip's first moment replaces moments before its start.

    Args:
        keys: int64 [K]: indices of key moments in the clip.
        num_moments: T.
        stride: 1: consecutive moments.
    """
    rows = keys[:, None] - np.arange(num_moments)[::-1] * stride
    return rows.clip(0), rows < 0


def at_deltas(
    keys: NDArray[np.int64],
    seconds: NDArray[np.float64],
    deltas: Sequence[float],
    tolerance: float,
) -> RowsOf:
    """Return windows of the moments nearest to `deltas` relative to each key.

    A moment beyond the tolerance is marked as a replacement.

    Args:
        keys: int64 [K]: indices of key moments in the clip.
        seconds: float64 [M], ascending: time of each moment of the clip.
        deltas: T times in seconds; below 0: before the key.
        tolerance: Max distance in seconds.
    """
    wanted = seconds[keys][:, None] + np.array(deltas, np.float64)
    rows = nearest(wanted.ravel(), seconds, np.inf).reshape(wanted.shape)
    return rows, np.abs(seconds[rows] - wanted) > tolerance + SLACK_SECONDS


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowSampler:
    """Sampler of windows: returns the frames of the windows whose key moments a sampler selects."""

    sampler: Sampler
    """Wrapped sampler; a key moment is a frame, a clip is a video."""
    keys: Population
    """Key moments of all clips."""
    frames_of: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    """Key moments, int64 [n] → frame ids of their windows, int64 [n, num_frames]."""
    num_frames: int
    """Frames of a window, over all cameras."""
    checksum: int
    """Checksum of the frames of all windows."""

    @property
    def traits(self) -> SamplerTraits:
        """Traits of the wrapped sampler, for these windows; overlapping windows share frames."""
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
        """Return the order of one epoch: int64 [n, num_frames]; `rows_at` returns the keys.

        Raises:
            ConfigError: the wrapped sampler cannot sample from these key moments.
        """
        del population  # `frames_of` has its frame ids
        order = self.sampler.order(self.keys, epoch)

        def keys_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            keys = order.frames_at(slots)
            check_samples(keys, self.sampler, self.keys)
            return keys

        return replace(
            order, frames_at=lambda slots: self.frames_of(keys_at(slots)), rows_at=keys_at
        )
