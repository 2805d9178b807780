"""Until when something must come from a source, and what it means if nothing does."""

from headrace.live.options import SourceOptions
from headrace.live.trouble import NO_ANSWER, Trouble

GRACE_SECONDS = 1.0
"""Beyond the time limit of FFmpeg's reads, so that its own words are heard where it has some."""
_INTERVALS = 2
"""Between frames, that a slow source may be silent for before it is said to stall."""


class Watchdog:
    """Watches one connection, by the clock of the pipeline.

    First it must open; then frames must come: where none does, the source is said to stall, and
    when its time is up the connection is given up.
    """

    def __init__(self, options: SourceOptions, now_ns: int) -> None:
        """The connection is being made."""
        self._options = options
        self._heard_ns = now_ns
        self._limit_seconds = options.open_timeout_seconds + GRACE_SECONDS
        self._frame_seconds: float | None = None
        self._is_connected = self._is_stalled = False
        self.is_recording = False
        """What is connected to has an end."""

    @property
    def until_ns(self) -> int | None:
        """When something must have come. None for a recording, whose frames may lie far apart:
        there FFmpeg sees to it that reading ends."""
        if self.is_recording:
            return None
        return self._heard_ns + round(self._limit_seconds * 1e9)

    @property
    def trouble(self) -> Trouble:
        """Why the connection is given up when its time is up."""
        if not self._is_connected:
            return NO_ANSWER
        words = f"no frame for {self._limit_seconds:g} s"
        return Trouble(words, "see whether the camera sends")

    def connected(self, now_ns: int, *, is_recording: bool) -> None:
        """The connection is open; its first frame has as long again."""
        self._heard_ns, self._is_connected, self.is_recording = now_ns, True, is_recording
        self._limit_seconds = self._options.open_timeout_seconds

    def heard(self, now_ns: int, frame_seconds: float | None = None) -> float | None:
        """Something came; returns the seconds of a stall that is over by that.

        Args:
            now_ns: When.
            frame_seconds: Its place on the timeline of the stream, where it is a frame.
        """
        stalled_seconds = (now_ns - self._heard_ns) / 1e9 if self._is_stalled else None
        self._heard_ns, self._is_stalled = now_ns, False
        if frame_seconds is not None:
            last, self._frame_seconds = self._frame_seconds, frame_seconds
            interval_seconds = 0.0 if last is None else frame_seconds - last
            usual_seconds = max(self._options.stall_seconds, _INTERVALS * interval_seconds)
            self._limit_seconds = min(usual_seconds, self._options.open_timeout_seconds)
        return stalled_seconds

    def stalls(self) -> str | None:
        """Returns words for a stall when the moment has come; None: the connection's time is up."""
        if self._frame_seconds is None or self._is_stalled:
            return None
        words = f"no frame for {self._limit_seconds:g} s"
        self._is_stalled = True
        self._limit_seconds = self._options.open_timeout_seconds
        return words
