"""Windows: some moments up to each key moment, and samplers of key moments as samplers of those."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.epoch_order import EpochOrder
from headrace.sampling.population import Population
from headrace.sampling.sampler import Sampler, SamplerTraits, check_samples

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


RowsOf = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""int64 [K, T]: the moments of the window of each of K keys, as places in the clip; and bool
[K, T]: those that stand in for others, which the clip does not have."""


def history(keys: NDArray[np.int64], num_moments: int, stride: int) -> RowsOf:
    """Return the `num_moments` moments, `stride` apart, that end at each key.

    Before the beginning of the clip, its first moment stands in.

    Args:
        keys: int64 [K]: places of moments in the clip.
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

    Where none is so near, the nearest stands in.

    Args:
        keys: int64 [K]: places of moments in the clip.
        seconds: float64 [M], ascending: when each moment of the clip was.
        deltas: T times in seconds; below 0: before the key.
        tolerance: Seconds.
    """
    wanted = seconds[keys][:, None] + np.array(deltas, np.float64)
    rows = nearest(wanted.ravel(), seconds, np.inf).reshape(wanted.shape)
    return rows, np.abs(seconds[rows] - wanted) > tolerance + _SLACK_SECONDS


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowSampler:
    """What a sampler gives of key moments, as the frames of the windows that belong to them."""

    sampler: Sampler
    """Samples key moments as if they were frames, and clips as if they were videos."""
    keys: Population
    """The key moments of all clips."""
    rows: NDArray[np.int64]
    """int64 [K, T]: the moments of each window."""
    frames: NDArray[np.int64]
    """int64 [moments, C]: ids of the frames of each moment, one for each camera."""

    @property
    def traits(self) -> SamplerTraits:
        """Those of the sampler, and of which windows; windows that overlap share frames."""
        traits = self.sampler.traits
        return replace(
            traits,
            identity=f"{traits.identity} of windows {self._checksum}",
            has_replacement=True,
            num_frames=self.rows.shape[1] * self.frames.shape[1],
            needs_durations=False,
            frames_needed=1,
            spans_videos=True,
        )

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: int64 [n, T * C]; its rows are the keys.

        Raises:
            ConfigError: the sampler cannot sample from such key moments.
        """
        del population  # which frames there are is known since the windows were made
        order = self.sampler.order(self.keys, epoch)

        def keys_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            keys = order.frames_at(slots)
            check_samples(keys, self.sampler, self.keys)
            return keys

        def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            return self.frames[self.rows[keys_at(slots)]].reshape(len(slots), -1)

        return replace(order, frames_at=frames_at, rows_at=keys_at)

    @cached_property
    def _checksum(self) -> int:
        shapes = repr((self.rows.shape, self.frames.shape)).encode()
        return zlib.crc32(
            self.frames.tobytes(), zlib.crc32(self.rows.tobytes(), zlib.crc32(shapes))
        )
