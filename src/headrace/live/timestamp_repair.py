"""Repair of stream timestamps that are missing, repeated, decreasing or far ahead."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

_SMOOTHING: Final = 8
"""The usual interval moves by 1/8 of the difference to the newest interval."""
_LOST_GAPS: Final = 4
_LOST_SECONDS: Final = 1.0
"""Frames are lost where an interval exceeds four usual ones and one second. A camera with a longer
exposure in the dark loses none."""
_MISSING: Final = "frames without timestamps; they are extrapolated by the usual interval"
_REPEATED: Final = "equal timestamps of several frames; they are extrapolated"


@dataclass(frozen=True, slots=True)
class RepairedTimestamp:
    """Repaired timestamp of a frame."""

    pts: int
    is_given: bool
    """Whether the source sent it; False where it was missing or repeated."""
    is_gap: bool = False
    """Whether frames are missing before it."""
    words: str = ""
    """Description of the repair; empty without one, or where reported before."""


class TimestampRepair:
    """Timestamp repair of one connection, frame by frame."""

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

    def place(self, pts: int | None) -> RepairedTimestamp:
        """Return the repaired timestamp of a frame; `pts` is None where the source sent none."""
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
        # A repeated pts advances by one tick, so that it does not pass the next one.
        step = 1 if pts is not None else max(1, round(self._usual))
        if self._last_pts is None:  # RTSP may send no pts for the first frame alone
            self._last_pts = 0
            return RepairedTimestamp(0, is_given=False)
        self._last_pts += step
        words = "" if self._has_reported else _MISSING if pts is None else _REPEATED
        self._has_reported = True
        return RepairedTimestamp(self._last_pts, is_given=False, words=words)

    def _milliseconds(self, ticks: int) -> int:
        return round(ticks * self._time_base * 1000)


class ArrivalClock:
    """Arrival times of packets, as timestamps for formats without any."""

    time_base: Final = Fraction(1, 90_000)

    def __init__(self) -> None:
        """Start at the first packet."""
        self._first_ns: int | None = None
        self._last = -1

    def place(self, arrived_ns: int) -> int:
        """Return the time of the next frame in ticks since the first; always increasing."""
        if self._first_ns is None:
            self._first_ns = arrived_ns
        ticks = round((arrived_ns - self._first_ns) / (self.time_base * 1_000_000_000))
        self._last = max(self._last + 1, ticks)
        return self._last
