"""Whether this machine decodes slower than a stream comes, so that it falls behind."""

from typing import Final

LATE: Final = "late"
"""Why a frame is dropped that was skipped, up to the next keyframe, to catch up."""
_WAITED_SECONDS: Final = 0.002
"""A read that takes so long had to wait: nothing lies ready, so nothing is late."""


class Lag:
    """How far reading is behind the stream, by packets that lay ready when they were asked for.

    Without it what a decoder cannot keep up with would wait in the buffers of the system and of
    the server, and every frame be older than the one before.
    """

    def __init__(self, limit_seconds: float) -> None:
        """Nothing came yet; it is late from `limit_seconds` behind on, until half of that."""
        self._limit_seconds = limit_seconds
        self._present: tuple[float, int] | None = None
        self.is_late = False

    def take(self, seconds: float, arrived_ns: int, waited_seconds: float) -> None:
        """Take in a packet: its place in the stream, when it came, how long its read waited."""
        if self._present is None or waited_seconds >= _WAITED_SECONDS:
            self._present = seconds, arrived_ns
        present_seconds, present_ns = self._present
        behind_seconds = (arrived_ns - present_ns) / 1e9 - (seconds - present_seconds)
        enough = self._limit_seconds / 2 if self.is_late else self._limit_seconds
        self.is_late = behind_seconds > enough
