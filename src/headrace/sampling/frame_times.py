"""When the frames of a video are shown, exactly: which frame is shown so many seconds from one."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.video.timebase import early_seconds, exact_number

Seconds = tuple[Fraction, ...]
"""Times from one frame on, in seconds; below 0: before it."""

_MOST_SECONDS = 10**9
"""With any time base, ticks of so many seconds fit 64 bits."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameTimes:
    """When the frames of one video, or of a part of it, are shown.

    A frame counts as shown from a microsecond before its time on, and from one tick before if it is
    shown for four or more, since containers round times to ticks.
    """

    pts: NDArray[np.int64]
    """int64 [frames], ascending: presentation time in ticks."""
    end: int
    """The first tick at which none of them is shown any more."""
    time_base: Fraction
    """Seconds per tick."""

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def seconds(self) -> Fraction:
        """From the first frame to the end of the last."""
        return (self.end - int(self.pts[0])) * self.time_base

    def ticks_after(self, seconds: Seconds) -> NDArray[np.int64]:
        """Return `seconds` in ticks, int64 of as many: to be added to the pts of a frame."""
        return _ticks(seconds, self.time_base, self._early)

    @property
    def slack_ticks(self) -> int:
        """By how many ticks the time of a frame may have been rounded."""
        return int(self._early >= self.time_base)

    @property
    def _early(self) -> Fraction:
        return early_seconds(len(self.pts), self.end - int(self.pts[0]), self.time_base)

    def shown_at(self, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which frame is shown at each of `ticks`; the first before, the last behind all."""
        found = np.searchsorted(self.pts, ticks, "right") - 1
        return np.asarray(np.clip(found, 0, len(self.pts) - 1), np.int64)

    def is_outside(self, ticks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return at which of `ticks` no frame is shown."""
        return np.asarray((ticks < self.pts[0]) | (ticks >= self.end), np.bool_)

    def num_starts(self, seconds: Seconds) -> int:
        """Return how many frames have something shown for as long as `seconds` (ascending) go on.

        They are the first ones.
        """
        last = int(self.ticks_after(seconds)[-1])
        return int(np.searchsorted(self.pts, self.end - last, "left"))


def seconds_of(name: str, values: object) -> Seconds:
    """Return times as they are written, exactly.

    Raises:
        ConfigError: they are no numbers, none, or beyond 10**9 seconds; `name` says what they are.
    """
    if not isinstance(values, tuple | list | np.ndarray) or not len(values):
        raise ConfigError(f"{name} must be seconds, as in (-0.2, -0.1, 0.0), got {values!r}")
    found = tuple(exact_number(f"each of {name}", each) for each in values)
    if max(map(abs, found)) > _MOST_SECONDS:
        raise ConfigError(f"{name} must be at most 10**9 seconds away, got {values!r}")
    return found


@lru_cache(maxsize=256)
def _ticks(seconds: Seconds, time_base: Fraction, early: Fraction) -> NDArray[np.int64]:
    ticks = np.array([(each + early) // time_base if each else 0 for each in seconds], np.int64)
    ticks.setflags(write=False)
    return ticks
