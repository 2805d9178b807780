"""Live edge: the server's backlog after a connection, skipped."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from headrace.live.stream_reader import ReceivedFrame
from headrace.runtime.item import DroppedItem
from headrace.runtime.stage_executor import OVERFLOW

BACKLOG: Final = "backlog"
"""Drop cause of frames that the server buffered before the connection."""
_WAIT_SHARE: Final = 0.25
"""Share of the frame interval; a read that waits this long waits for the camera."""
_WAIT_SECONDS: Final = 0.01
"""The same wait for an unknown interval."""
_SILENT_SECONDS: Final = 0.2
"""Time without a frame that ends a backlog."""
_MAX_SECONDS: Final = 5.0
"""Duration of the search for the live edge, at most: a slow machine may never wait."""


class LiveEdge:
    """Search for the live edge: holds back frames read without a wait, and drops the old ones.

    A server's buffered frames arrive as fast as they are read; the first read that waits, waits
    for the camera, and ends the search. So the first frame is late by one interval.
    """

    def __init__(self, limit_seconds: float, max_frames: int) -> None:
        """Start the search.

        Args:
            limit_seconds: Maximum age of a frame relative to the newest.
            max_frames: Frames held back, at most.
        """
        self._limit_seconds = limit_seconds
        self._max_frames = max_frames
        self._held: deque[ReceivedFrame | DroppedItem] = deque()
        self._first: ReceivedFrame | None = None
        self._last: ReceivedFrame | None = None
        self._num_held = 0
        self.dropped = 0
        """Dropped frames of the backlog."""
        self.is_over = False

    @property
    def until_ns(self) -> int | None:
        """Time at which the search ends without a frame; None: no frame is held."""
        if self.is_over or self._last is None:
            return None
        return self._last.arrived_ns + round(_SILENT_SECONDS * 1e9)

    @property
    def behind_milliseconds(self) -> int:
        """Delay of the first frame behind the live edge."""
        if self._first is None or self._last is None:
            return 0
        shown_seconds = self._last.seconds - self._first.seconds
        passed_seconds = (self._last.arrived_ns - self._first.arrived_ns) / 1e9
        return max(0, round((shown_seconds - passed_seconds) * 1000))

    def take(self, item: ReceivedFrame | DroppedItem) -> list[ReceivedFrame | DroppedItem]:
        """Return the released items, in order."""
        if self.is_over:
            return [item]
        if isinstance(item, DroppedItem):
            is_backlog = item.cause == OVERFLOW
            self.dropped += is_backlog
            self._held.append(DroppedItem(BACKLOG) if is_backlog else item)
            return []
        if self._is_live(item):
            return [*self.end(), item]
        self._first = self._first or item
        self._last = item
        self._held.append(item)
        self._num_held += 1
        return list(self._drop_outdated(item.seconds - self._limit_seconds))

    def end(self) -> list[ReceivedFrame | DroppedItem]:
        """End the search; return the held items."""
        self.is_over = True
        held, self._held = self._held, deque()
        return list(held)

    def _is_live(self, frame: ReceivedFrame) -> bool:
        if self._first is None or self._last is None:
            return False
        gap = frame.seconds - self._last.seconds
        if gap <= 0:  # decreasing times are unusable
            return frame.waited_seconds >= _WAIT_SECONDS
        elapsed_seconds = (frame.arrived_ns - self._first.arrived_ns) / 1e9
        return frame.waited_seconds >= _WAIT_SHARE * gap or elapsed_seconds > _MAX_SECONDS

    def _drop_outdated(self, before_seconds: float) -> Iterator[ReceivedFrame | DroppedItem]:
        while self._held:
            oldest = self._held[0]
            if not isinstance(oldest, DroppedItem):
                if oldest.seconds >= before_seconds and self._num_held <= self._max_frames:
                    return
                oldest = DroppedItem(BACKLOG)
                self._num_held -= 1
                self.dropped += 1
            self._held.popleft()
            yield oldest
