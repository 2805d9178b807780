"""Exact display times of a video's frames, and the frame shown at a given time."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.video.timebase import early_seconds, exact_number

Seconds = tuple[Fraction, ...]
"""Times relative to a frame, in seconds; below 0: before it."""

_MAX_SECONDS = 10**9
"""Largest time in seconds; its ticks fit 64 bits in any time base."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameTimes:
    """Display times of the frames of one video, or of a part of it.

    A frame counts as shown from a microsecond before its time on, and from one tick before if it is
    shown for four or more, since containers round times to ticks.
    """

    pts: NDArray[np.int64]
    """int64 [frames], ascending: presentation time in ticks."""
    end: int
    """End of the last frame: the first tick at which no frame is shown."""
    time_base: Fraction
    """Seconds per tick."""

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def seconds(self) -> Fraction:
        """Seconds from the first frame to the end of the last."""
        return (self.end - int(self.pts[0])) * self.time_base

    def ticks_after(self, seconds: Seconds) -> NDArray[np.int64]:
        """Return `seconds` in ticks, int64 [T], to add to the pts of a frame."""
        return _ticks(seconds, self.time_base, self._early)

    @property
    def slack_ticks(self) -> int:
        """Ticks by which the time of a frame may be rounded."""
        return int(self._early >= self.time_base)

    @property
    def _early(self) -> Fraction:
        return early_seconds(len(self.pts), self.end - int(self.pts[0]), self.time_base)

    def shown_at(self, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame shown at each of `ticks`: the first before all, the last after all."""
        frames = np.searchsorted(self.pts, ticks, "right") - 1
        return np.asarray(np.clip(frames, 0, len(self.pts) - 1), np.int64)

    def is_outside(self, ticks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of `ticks` are before the first frame, or after the end of the last."""
        return np.asarray((ticks < self.pts[0]) | (ticks >= self.end), np.bool_)

    def num_starts(self, seconds: Seconds) -> int:
        """Return how many frames a clip of `seconds` (ascending) can start at.

        They are the first ones: a frame is shown at all these times after each.
        """
        last = int(self.ticks_after(seconds)[-1])
        return int(np.searchsorted(self.pts, self.end - last, "left"))


def seconds_of(name: str, values: object) -> Seconds:
    """Return times as exact fractions.

    Raises:
        ConfigError: there is none, one is no number, or beyond 10**9 seconds; `name` names them.
    """
    if not isinstance(values, tuple | list | np.ndarray) or not len(values):
        raise ConfigError(f"{name} must be seconds, as in (-0.2, -0.1, 0.0), got {values!r}")
    seconds = tuple(exact_number(f"each of {name}", value) for value in values)
    if max(map(abs, seconds)) > _MAX_SECONDS:
        raise ConfigError(f"{name} must be at most 10**9 seconds away, got {values!r}")
    return seconds


@lru_cache(maxsize=256)
def _ticks(seconds: Seconds, time_base: Fraction, early: Fraction) -> NDArray[np.int64]:
    ticks = np.array([(time + early) // time_base if time else 0 for time in seconds], np.int64)
    ticks.setflags(write=False)
    return ticks
