"""Moments of a clip: their selection, the frame of each camera, and windows around key moments."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.units import check_integers, check_numbers, is_number

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


_RATE_TOLERANCE = 1.01
"""Ratio up to which two rates are equal, because containers round times."""
_END_TOLERANCE = 0.05
"""Share of a frame's duration by which its end may be late; Matroska rounds to milliseconds."""
_GAP = 1.5
"""Ratio of an interval to the median above which it is a gap."""
_MAX_NUMBER = 2**62
"""Max number of a moment."""

_Lists = Mapping[str, NDArray[Any]] | NDArray[Any]
"""Values by clip name, or the same for all clips."""


class Moments(ABC):
    """Selection of the moments to deliver, for all clips.

        Moments.every(6)                          # moments 0, 6, 12, ...
        Moments.frames({"clip_a": [0, 4, 9]})     # by number, among the reference's frames
        Moments.at_seconds({"clip_a": [0.5]})     # by time, on the common clock
        Moments.rate(2.0)                         # 2 Hz of 12 Hz: the moments nearest to a grid

    Frames between the moments are neither delivered nor resized. They are decoded only if other
    frames reference them. Clips that are missing in a dict deliver nothing.
    """

    @staticmethod
    def every(stride: int, first: int = 0) -> "Moments":
        """Select every `stride`-th moment of each clip, from number `first` on."""
        return _Every(stride=stride, first=first)

    @staticmethod
    def frames(numbers: Iterable[int] | Mapping[str, Iterable[int]]) -> "Moments":
        """Select moments by number, by clip name or for all clips."""
        return _Numbered(listed=_lists(numbers, "frames"))

    @staticmethod
    def at_seconds(
        seconds: Iterable[float] | Mapping[str, Iterable[float]], *, tolerance_ms: float = 50.0
    ) -> "Moments":
        """Select the moments nearest to times on the common clock, within a tolerance."""
        return _AtSeconds(listed=_lists(seconds, "at_seconds"), tolerance_ms=tolerance_ms)

    @staticmethod
    def rate(per_second: float) -> "Moments":
        """Select the moments nearest to a grid that starts at the clip's first moment.

        The grid ends with the last frame, whose duration is the clip's mean interval. A point of
        the grid without a moment within half a step, in a gap, selects none.
        """
        return _Rate(per_second=per_second)

    @property
    def clips(self) -> frozenset[str] | None:
        """Names of the clips that deliver moments; None: all clips."""
        return None

    @abstractmethod
    def of(
        self, clip: str, seconds: NDArray[np.float64], *, may_lack: bool = False
    ) -> NDArray[np.int64]:
        """Return the numbers of a clip's selected moments, int64, ascending.

        Args:
            clip: Name of the clip.
            seconds: float64 [M], ascending: times of all its moments on the common clock.
            may_lack: Whether moments that the clip does not have are left out, instead of raising.

        Raises:
            ConfigError: the clip lacks a moment, and `may_lack` is False.
        """


@dataclass(frozen=True, kw_only=True)
class _Every(Moments):
    stride: int
    first: int

    def __post_init__(self) -> None:
        check_integers(1, stride=self.stride)
        check_integers(0, first=self.first)

    def of(
        self, clip: str, seconds: NDArray[np.float64], *, may_lack: bool = False
    ) -> NDArray[np.int64]:
        if self.first >= len(seconds) and not may_lack:
            raise _missing_moment(clip, self.first, len(seconds))
        return np.arange(self.first, len(seconds), self.stride)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Listed(Moments):
    """Moments in a list, by clip or for all clips."""

    listed: _Lists

    @property
    def clips(self) -> frozenset[str] | None:
        return frozenset(self.listed) if isinstance(self.listed, Mapping) else None

    def _values(self, clip: str) -> NDArray[Any]:
        return self.listed[clip] if isinstance(self.listed, Mapping) else self.listed

    def _arrays(self) -> Iterable[NDArray[Any]]:
        return self.listed.values() if isinstance(self.listed, Mapping) else (self.listed,)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Numbered(_Listed):
    def __post_init__(self) -> None:
        for values in self._arrays():
            if values.dtype.kind not in "iu" or values.min() < 0 or values.max() > _MAX_NUMBER:
                raise ConfigError(
                    f"Moments.frames needs integers >= 0, got {values.tolist()!r:.60}"
                )

    def of(
        self, clip: str, seconds: NDArray[np.float64], *, may_lack: bool = False
    ) -> NDArray[np.int64]:
        numbers = np.unique(self._values(clip)).astype(np.int64)
        is_present = numbers < len(seconds)
        if not (may_lack or is_present.all()):
            raise _missing_moment(clip, int(numbers[~is_present][0]), len(seconds))
        return numbers[is_present]


@dataclass(frozen=True, kw_only=True, eq=False)
class _AtSeconds(_Listed):
    tolerance_ms: float

    def __post_init__(self) -> None:
        check_numbers(0, tolerance_ms=self.tolerance_ms)
        for values in self._arrays():
            if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
                raise ConfigError(
                    f"Moments.at_seconds needs finite seconds, got {values.tolist()!r:.60}"
                )

    def of(
        self, clip: str, seconds: NDArray[np.float64], *, may_lack: bool = False
    ) -> NDArray[np.int64]:
        requested = self._values(clip).astype(np.float64)
        numbers = nearest(requested, seconds, np.inf)
        distance = np.abs(seconds[numbers] - requested)
        is_present = distance <= self.tolerance_ms / 1000 + SLACK_SECONDS
        if not (may_lack or is_present.all()):
            first = int(np.argmin(is_present))
            raise ConfigError(
                f"clip {clip} has no moment at {requested[first]:.6f} s: the nearest is "
                f"{distance[first] * 1000:.1f} ms away, and tolerance_ms is {self.tolerance_ms:g} "
                f"(moments are from {seconds[0]:.6f} to {seconds[-1]:.6f} s); check the unit and "
                "the clock, or raise tolerance_ms"
            )
        return np.unique(numbers[is_present])


@dataclass(frozen=True, kw_only=True)
class _Rate(Moments):
    per_second: float

    def __post_init__(self) -> None:
        if not (is_number(self.per_second) and 0 < self.per_second < math.inf):
            raise ConfigError(
                f"per_second must be a finite number above 0, got {self.per_second!r}"
            )

    def of(
        self, clip: str, seconds: NDArray[np.float64], *, may_lack: bool = False
    ) -> NDArray[np.int64]:
        interval = _usual_interval(seconds)
        if interval * self.per_second > _RATE_TOLERANCE:
            raise ConfigError(
                f"per_second is {self.per_second:g}, but clip {clip} has only {1 / interval:.3g} "
                "moments per second; lower per_second"
            )
        # First the nearest grid point of each moment, then the nearest moment of each grid point.
        steps = (seconds - seconds[0]) * self.per_second
        points = np.floor(steps + 0.5)
        end = steps[-1] + (1 - _END_TOLERANCE) * interval * self.per_second
        distance = np.round(np.abs(steps - points) / self.per_second / SLACK_SECONDS)
        order = np.lexsort((np.arange(len(steps)), distance, points))
        grid, firsts = np.unique(points[order], return_index=True)
        return np.sort(order[firsts[grid <= end]])


def _usual_interval(seconds: NDArray[np.float64]) -> float:
    """Return the mean seconds between moments, without gaps; 0 for a single moment."""
    intervals = np.diff(seconds)
    if not len(intervals):
        return 0.0
    return float(intervals[intervals <= _GAP * np.median(intervals)].mean())


def _lists(given: Iterable[float] | Mapping[str, Iterable[float]], method: str) -> _Lists:
    if isinstance(given, Mapping):
        if not given:
            raise ConfigError(f"Moments.{method} needs a list for each clip, got {given!r}")
        return {str(clip): _array(values, method) for clip, values in given.items()}
    return _array(given, method)


def _array(given: object, method: str) -> NDArray[Any]:
    try:
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise TypeError(f"got {given!r:.60}")
        array = np.array(given if isinstance(given, np.ndarray) else list(given))
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"Moments.{method} needs a list, or a list for each clip: {error}"
        ) from error
    if array.ndim != 1 or not len(array):
        raise ConfigError(
            f"Moments.{method} needs a non-empty list, or one for each clip, got {given!r:.60}; "
            "leave out clips without moments"
        )
    return array


def _missing_moment(clip: str, number: int, count: int) -> ConfigError:
    return ConfigError(f"moment {number} is out of range: clip {clip} has moments 0 to {count - 1}")
