"""The times of a stream, where they are missing, stand still, go back or jump ahead."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

_USUAL_OF_GAPS: Final = 8
"""The usual gap follows the newest gap by one part in so many."""
_LOST_GAPS: Final = 4
_LOST_SECONDS: Final = 1.0
"""A gap of more than four usual ones, and more than a second, is one in which frames were lost. A
camera that takes longer in the dark loses none."""
_MISSING: Final = "frames without timestamps; they are counted on by the usual interval"
_TWICE: Final = "the same timestamp for several frames; those are counted on"


@dataclass(frozen=True, slots=True)
class RepairedTimestamp:
    """Where a frame stands on the timeline."""

    pts: int
    is_given: bool
    """By the source; False where it told none, or the one of the frame before."""
    is_gap: bool = False
    """It does not follow on the frame before."""
    words: str = ""
    """What is odd about it, for a reader; told once for what stays so."""


class TimestampRepair:
    """Places the frames of one connection, in the order they come."""

    def __init__(self, time_base: Fraction, rate: Fraction | None = None) -> None:
        """No frame yet.

        Args:
            time_base: Seconds per tick.
            rate: Frames per second as the stream says, if it does.
        """
        self._time_base = time_base
        self._usual = max(1.0, float(1 / (rate * time_base))) if rate else 0.0
        self._given: int | None = None
        self._repair_times: int | None = None
        self._has_told_missing = False

    def place(self, pts: int | None) -> RepairedTimestamp:
        """Return where a frame with this pts stands; None: the source tells none."""
        last, given = self._repair_times, self._given
        if pts is None or pts == given:
            return self._extrapolate(pts)
        self._given = self._repair_times = pts
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
        self._usual += (gap - self._usual) / _USUAL_OF_GAPS if self._usual else gap
        return RepairedTimestamp(pts, is_given=True)

    def _extrapolate(self, pts: int | None) -> RepairedTimestamp:
        # A pts that is told twice is nudged on by a tick, so as not to overtake the next one.
        step = 1 if pts is not None else max(1, round(self._usual))
        if self._repair_times is None:  # RTSP may tell none for the first one, and all from then on
            self._repair_times = 0
            return RepairedTimestamp(0, is_given=False)
        self._repair_times += step
        words = "" if self._has_told_missing else _MISSING if pts is None else _TWICE
        self._has_told_missing = True
        return RepairedTimestamp(self._repair_times, is_given=False, words=words)

    def _milliseconds(self, ticks: int) -> int:
        return round(ticks * self._time_base * 1000)


class ArrivalClock:
    """Times of a live stream whose format has none: when its packets came."""

    time_base: Final = Fraction(1, 90_000)

    def __init__(self) -> None:
        """No frame yet."""
        self._first_ns: int | None = None
        self._last = -1

    def place(self, arrived_ns: int) -> int:
        """Return the time of the next frame, in ticks since the first; it always grows."""
        if self._first_ns is None:
            self._first_ns = arrived_ns
        ticks = round((arrived_ns - self._first_ns) / (self.time_base * 1_000_000_000))
        self._last = max(self._last + 1, ticks)
        return self._last
