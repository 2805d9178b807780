"""Live edge of a stream: skips the server's backlog after a connection."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from headrace.live.stream_reader import ReceivedFrame
from headrace.runtime.stage import DroppedItem
from headrace.runtime.stage_executor import OVERFLOW

BACKLOG: Final = "backlog"
"""Drop cause of frames that the server buffered before the connection."""
_WAIT_SHARE: Final = 0.25
"""Share of the frame interval: a read with a longer wait has reached the live edge."""
_WAIT_SECONDS: Final = 0.01
"""The same threshold in seconds, for an unknown interval."""
_SILENT_SECONDS: Final = 0.2
"""Seconds without a frame that end a backlog."""
_MAX_SECONDS: Final = 5.0
"""Max seconds of the search for the live edge: on a slow machine no read may ever wait."""


class LiveEdge:
    """Search for the live edge: buffers frames that are read without a wait, and drops the oldest.

    Frames from a server's buffer arrive as fast as they are read. The first read that waits, waits
    for the camera and ends the search. So the first frame is late by one interval.
    """

    def __init__(self, limit_seconds: float, max_frames: int) -> None:
        """Start the search.

        Args:
            limit_seconds: Max age of a frame relative to the newest.
            max_frames: Max buffered frames.
        """
        self._limit_seconds = limit_seconds
        self._max_frames = max_frames
        self._buffered: deque[ReceivedFrame | DroppedItem] = deque()
        self._first: ReceivedFrame | None = None
        self._last: ReceivedFrame | None = None
        self._num_buffered = 0
        self.dropped = 0
        """Dropped frames of the backlog."""
        self.is_over = False

    @property
    def until_ns(self) -> int | None:
        """Time at which the search ends if no frame arrives; None: no frame is buffered."""
        if self.is_over or self._last is None:
            return None
        return self._last.arrived_ns + round(_SILENT_SECONDS * 1e9)

    @property
    def behind_milliseconds(self) -> int:
        """Milliseconds of the first frame behind the live edge."""
        if self._first is None or self._last is None:
            return 0
        stream_seconds = self._last.seconds - self._first.seconds
        wall_seconds = (self._last.arrived_ns - self._first.arrived_ns) / 1e9
        return max(0, round((stream_seconds - wall_seconds) * 1000))

    def take(self, item: ReceivedFrame | DroppedItem) -> list[ReceivedFrame | DroppedItem]:
        """Add an item; return the released items, in order."""
        if self.is_over:
            return [item]
        if isinstance(item, DroppedItem):
            is_backlog = item.cause == OVERFLOW
            self.dropped += is_backlog
            self._buffered.append(DroppedItem(BACKLOG) if is_backlog else item)
            return []
        if self._is_live(item):
            return [*self.end(), item]
        self._first = self._first or item
        self._last = item
        self._buffered.append(item)
        self._num_buffered += 1
        return list(self._drop_outdated(item.seconds - self._limit_seconds))

    def end(self) -> list[ReceivedFrame | DroppedItem]:
        """End the search; return the buffered items."""
        self.is_over = True
        buffered, self._buffered = self._buffered, deque()
        return list(buffered)

    def _is_live(self, frame: ReceivedFrame) -> bool:
        if self._first is None or self._last is None:
            return False
        gap = frame.seconds - self._last.seconds
        if gap <= 0:  # a decreasing timestamp gives no interval
            return frame.waited_seconds >= _WAIT_SECONDS
        elapsed_seconds = (frame.arrived_ns - self._first.arrived_ns) / 1e9
        return frame.waited_seconds >= _WAIT_SHARE * gap or elapsed_seconds > _MAX_SECONDS

    def _drop_outdated(self, before_seconds: float) -> Iterator[ReceivedFrame | DroppedItem]:
        while self._buffered:
            oldest = self._buffered[0]
            if not isinstance(oldest, DroppedItem):
                if oldest.seconds >= before_seconds and self._num_buffered <= self._max_frames:
                    return
                oldest = DroppedItem(BACKLOG)
                self._num_buffered -= 1
                self.dropped += 1
            self._buffered.popleft()
            yield oldest
