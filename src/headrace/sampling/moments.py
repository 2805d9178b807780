"""Moments: which moments of a clip of cameras are delivered: a stride, a list, times, a rate."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.units import check_integers, check_numbers, is_number

_SLACK_SECONDS = 1e-6
_ALIKE = 1.01
"""Rates that differ by less are the same: containers round times."""
_ROUNDED = 0.05
"""Share of a frame's duration by which its end may be late: Matroska rounds to milliseconds."""
_GAP = 1.5
"""Frames that are this many times the usual interval apart have a gap between them."""
_MOST_NUMBER = 2**62

_Lists = Mapping[str, NDArray[Any]] | NDArray[Any]
"""Of each clip that is named, or of all alike."""


class Moments(ABC):
    """Which moments are delivered, one choice for all clips.

        Moments.every(6)                          # moments 0, 6, 12, ...
        Moments.frames({"clip_a": [0, 4, 9]})     # by number: of the reference's frames
        Moments.at_seconds({"clip_a": [0.5]})     # by time, on the common clock
        Moments.rate(2.0)                         # 2 Hz of 12 Hz: those nearest to a grid

    What is between them is neither delivered nor resized; it is decoded on the way, but for frames
    that no other refers to. Clips that a list does not name deliver nothing.
    """

    @staticmethod
    def every(stride: int, first: int = 0) -> "Moments":
        """Return every `stride`-th moment of each clip, from number `first` on."""
        return _Every(stride=stride, first=first)

    @staticmethod
    def frames(numbers: Iterable[int] | Mapping[str, Iterable[int]]) -> "Moments":
        """Return moments by number, of each clip that is named, or of all clips alike."""
        return _Numbered(listed=_lists(numbers, "frames"))

    @staticmethod
    def at_seconds(
        seconds: Iterable[float] | Mapping[str, Iterable[float]], *, tolerance_ms: float = 50.0
    ) -> "Moments":
        """Return the moments nearest to times on the common clock, no further than a tolerance."""
        return _AtSeconds(listed=_lists(seconds, "at_seconds"), tolerance_ms=tolerance_ms)

    @staticmethod
    def rate(per_second: float) -> "Moments":
        """Return the moments nearest to a grid that begins with the clip's first moment.

        The grid ends where the last frame ends, which is shown as long as frames of the clip
        usually are. Where a gap leaves a point of the grid without a moment within half a step,
        none comes.
        """
        return _Rate(per_second=per_second)

    @property
    def clips(self) -> frozenset[str] | None:
        """Names of the clips that deliver anything; None: all of them."""
        return None

    @abstractmethod
    def of(
        self, clip: str, seconds: NDArray[np.float64], *, may_lack: bool = False
    ) -> NDArray[np.int64]:
        """Return int64, ascending: the numbers of the moments of a clip that are delivered.

        Args:
            clip: Its name.
            seconds: float64 [M], ascending: when all its moments are, on the common clock.
            may_lack: Whether what is asked for and not there is left out.

        Raises:
            ConfigError: a moment is asked for that is not there.
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
            raise _not_there(clip, self.first, len(seconds))
        return np.arange(self.first, len(seconds), self.stride)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Numbered(Moments):
    listed: _Lists

    def __post_init__(self) -> None:
        for values in _each(self.listed):
            if values.dtype.kind not in "iu" or values.min() < 0 or values.max() > _MOST_NUMBER:
                raise ConfigError(
                    f"Moments.frames takes whole numbers from 0 up, got {values.tolist()!r:.60}"
                )

    @property
    def clips(self) -> frozenset[str] | None:
        return _names(self.listed)

    def of(
        self, clip: str, seconds: NDArray[np.float64], *, may_lack: bool = False
    ) -> NDArray[np.int64]:
        numbers = np.unique(_of_clip(self.listed, clip)).astype(np.int64)
        is_there = numbers < len(seconds)
        if not (may_lack or is_there.all()):
            raise _not_there(clip, int(numbers[~is_there][0]), len(seconds))
        return numbers[is_there]


@dataclass(frozen=True, kw_only=True, eq=False)
class _AtSeconds(Moments):
    listed: _Lists
    tolerance_ms: float

    def __post_init__(self) -> None:
        check_numbers(0, tolerance_ms=self.tolerance_ms)
        for values in _each(self.listed):
            if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
                raise ConfigError(f"Moments.at_seconds takes seconds, got {values.tolist()!r:.60}")

    @property
    def clips(self) -> frozenset[str] | None:
        return _names(self.listed)

    def of(
        self, clip: str, seconds: NDArray[np.float64], *, may_lack: bool = False
    ) -> NDArray[np.int64]:
        asked = _of_clip(self.listed, clip).astype(np.float64)
        numbers = _nearest(seconds, asked)
        apart = np.abs(seconds[numbers] - asked)
        is_there = apart <= self.tolerance_ms / 1000 + _SLACK_SECONDS
        if not (may_lack or is_there.all()):
            place = int(np.argmin(is_there))
            raise ConfigError(
                f"clip {clip} has no moment at {asked[place]:.6f} s: the nearest is "
                f"{apart[place] * 1000:.1f} ms away, {self.tolerance_ms:g} are tolerated (its "
                f"moments are from {seconds[0]:.6f} to {seconds[-1]:.6f} s); look at the unit and "
                "the clock, or raise tolerance_ms"
            )
        return np.unique(numbers[is_there])


@dataclass(frozen=True, kw_only=True)
class _Rate(Moments):
    per_second: float

    def __post_init__(self) -> None:
        if not (is_number(self.per_second) and 0 < self.per_second < math.inf):
            raise ConfigError(
                f"a rate of moments is a number a second, above 0, got {self.per_second!r}"
            )

    def of(
        self, clip: str, seconds: NDArray[np.float64], *, may_lack: bool = False
    ) -> NDArray[np.int64]:
        interval = _usual_interval(seconds)
        if interval * self.per_second > _ALIKE:
            raise ConfigError(
                f"{self.per_second:g} moments a second were asked for, and clip {clip} has "
                f"{1 / interval:.3g}; ask for at most as many"
            )
        # Of each moment the nearest point of the grid, then of each point the nearest moment.
        steps = (seconds - seconds[0]) * self.per_second
        points = np.floor(steps + 0.5)
        end = steps[-1] + (1 - _ROUNDED) * interval * self.per_second
        apart = np.round(np.abs(steps - points) / self.per_second / _SLACK_SECONDS)
        order = np.lexsort((np.arange(len(steps)), apart, points))
        grid, firsts = np.unique(points[order], return_index=True)
        return np.sort(order[firsts[grid <= end]])


def _usual_interval(seconds: NDArray[np.float64]) -> float:
    """Return the mean seconds from one moment to the next, gaps left out; 0 for a single moment."""
    intervals = np.diff(seconds)
    if not len(intervals):
        return 0.0
    return float(intervals[intervals <= _GAP * np.median(intervals)].mean())


def _nearest(seconds: NDArray[np.float64], asked: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return of each time the nearest moment; of two equally near, the earlier."""
    after = np.searchsorted(seconds, asked).clip(0, len(seconds) - 1)
    before = (after - 1).clip(0)
    is_before = np.abs(seconds[before] - asked) <= np.abs(seconds[after] - asked) + _SLACK_SECONDS
    return np.where(is_before, before, after)


def _lists(given: Iterable[float] | Mapping[str, Iterable[float]], what: str) -> _Lists:
    if isinstance(given, Mapping):
        if not given:
            raise ConfigError(f"Moments.{what} takes a list for each clip, got none: {given!r}")
        return {str(clip): _array(values, what) for clip, values in given.items()}
    return _array(given, what)


def _array(given: object, what: str) -> NDArray[Any]:
    try:
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise TypeError(f"got {given!r:.60}")
        found = np.array(given if isinstance(given, np.ndarray) else list(given))
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"Moments.{what} takes a list, or one for each clip: {error}") from error
    if found.ndim != 1 or not len(found):
        raise ConfigError(
            f"Moments.{what} takes a list, or one for each clip, none of them empty: leave "
            f"out such clips; got {given!r:.60}"
        )
    return found


def _each(listed: _Lists) -> Iterable[NDArray[Any]]:
    return listed.values() if isinstance(listed, Mapping) else (listed,)


def _names(listed: _Lists) -> frozenset[str] | None:
    return frozenset(listed) if isinstance(listed, Mapping) else None


def _of_clip(listed: _Lists, clip: str) -> NDArray[Any]:
    return listed[clip] if isinstance(listed, Mapping) else listed


def _not_there(clip: str, number: int, there: int) -> ConfigError:
    return ConfigError(
        f"moment {number} of clip {clip} was asked for, and it has {there}, from number 0 on"
    )
