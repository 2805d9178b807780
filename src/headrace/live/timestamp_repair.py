"""Repair of missing and repeated stream timestamps; detection of jumps."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

_SMOOTHING: Final = 8
"""Each new interval moves the usual interval by 1/8 of their difference."""
_LOST_GAPS: Final = 4
_LOST_SECONDS: Final = 1.0
"""Frames are lost if an interval exceeds both four usual intervals and one second. So a camera with
a longer exposure in the dark loses none."""
_MISSING: Final = "frames without timestamps; extrapolated by the usual interval"
_REPEATED: Final = "several frames with equal timestamps; extrapolated"


@dataclass(frozen=True, slots=True)
class RepairedTimestamp:
    """Repaired timestamp of a frame."""

    pts: int
    is_given: bool
    """Whether the source sent it; False: it was missing or repeated."""
    is_gap: bool = False
    """Whether frames are missing before it."""
    words: str = ""
    """Description of the repair or jump; empty: none, or already reported."""


class TimestampRepair:
    """Repair of the timestamps of one connection, frame by frame."""

    def __init__(self, time_base: Fraction, rate: Fraction | None = None) -> None:
        """Start a timeline.

        Args:
            time_base: Seconds per tick.
            rate: Nominal frames per second; None: unknown.
        """
        self._time_base = time_base
        self._usual = max(1.0, float(1 / (rate * time_base))) if rate else 0.0
        self._given: int | None = None
        self._last_pts: int | None = None
        self._has_reported = False

    def repair(self, pts: int | None) -> RepairedTimestamp:
        """Return the repaired timestamp of a frame; `pts` None: the source sent no timestamp."""
        last, given = self._last_pts, self._given
        if pts is None or pts == given:
            return self._extrapolate(pts)
        self._given = self._last_pts = pts
        if last is None or given is None:
            return RepairedTimestamp(pts, is_given=True)
        if pts <= last:
            words = f"timestamps went back by {self._milliseconds(last - pts)} ms"
            return RepairedTimestamp(pts, is_given=True, is_gap=True, words=words)
        gap = pts - last
        is_gap = bool(self._usual) and gap > self._usual * _LOST_GAPS
        if is_gap and gap * self._time_base > _LOST_SECONDS:
            words = f"timestamps jumped ahead by {self._milliseconds(gap)} ms"
            return RepairedTimestamp(pts, is_given=True, is_gap=True, words=words)
        self._usual += (gap - self._usual) / _SMOOTHING if self._usual else gap
        return RepairedTimestamp(pts, is_given=True)

    def _extrapolate(self, pts: int | None) -> RepairedTimestamp:
        # A repeated pts advances by one tick, so that it stays before the next pts.
        step = 1 if pts is not None else max(1, round(self._usual))
        if self._last_pts is None:  # RTSP may send no pts for the first frame only
            self._last_pts = 0
            return RepairedTimestamp(0, is_given=False)
        self._last_pts += step
        words = "" if self._has_reported else _MISSING if pts is None else _REPEATED
        self._has_reported = True
        return RepairedTimestamp(self._last_pts, is_given=False, words=words)

    def _milliseconds(self, ticks: int) -> int:
        return round(ticks * self._time_base * 1000)


class ArrivalClock:
    """Timestamps from arrival times, for formats without timestamps."""

    time_base: Final = Fraction(1, 90_000)

    def __init__(self) -> None:
        """Start at the first packet."""
        self._first_ns: int | None = None
        self._last = -1

    def timestamp(self, arrived_ns: int) -> int:
        """Return the timestamp of the next frame, in ticks since the first; always increasing."""
        if self._first_ns is None:
            self._first_ns = arrived_ns
        ticks = round((arrived_ns - self._first_ns) / (self.time_base * 1_000_000_000))
        self._last = max(self._last + 1, ticks)
        return self._last
