"""Live edge: the server's backlog after a connection, skipped; and late decoding, detected."""

from collections import deque
from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

from headrace.runtime.item import DroppedItem
from headrace.runtime.stage_executor import OVERFLOW

LATE: Final = "late"
"""Drop cause of frames skipped up to the next keyframe, to catch up."""
_LAG_WAIT_SECONDS: Final = 0.002
"""Wait of a read that shows that no packet was ready."""


class DecodeLag:
    """Detector of late decoding, by packets that were ready before their read.

    Without it, packets of a slow decoder would collect in the buffers of system and server, and
    each frame would be older than the one before.
    """

    def __init__(self, limit_seconds: float) -> None:
        """Late starts at `limit_seconds` behind the stream, and ends at half of it."""
        self._limit_seconds = limit_seconds
        self._present: tuple[float, int] | None = None
        self.is_late = False

    def add(self, seconds: float, arrived_ns: int, waited_seconds: float) -> None:
        """Add a packet: its stream time, its arrival, and the wait of its read."""
        if self._present is None or waited_seconds >= _LAG_WAIT_SECONDS:
            self._present = seconds, arrived_ns
        present_seconds, present_ns = self._present
        behind_seconds = (arrived_ns - present_ns) / 1e9 - (seconds - present_seconds)
        enough = self._limit_seconds / 2 if self.is_late else self._limit_seconds
        self.is_late = behind_seconds > enough


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


class TimedFrame(Protocol):
    """Frame with the times that the live edge needs."""

    @property
    def seconds(self) -> float:
        """Stream time."""
        ...

    @property
    def arrived_ns(self) -> int:
        """Arrival."""
        ...

    @property
    def waited_seconds(self) -> float:
        """Wait of its read."""
        ...


FrameT = TypeVar("FrameT", bound=TimedFrame)


class LiveEdge(Generic[FrameT]):
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
        self._held: deque[FrameT | DroppedItem] = deque()
        self._first: FrameT | None = None
        self._last: FrameT | None = None
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

    def take(self, item: FrameT | DroppedItem) -> list[FrameT | DroppedItem]:
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

    def end(self) -> list[FrameT | DroppedItem]:
        """End the search; return the held items."""
        self.is_over = True
        held, self._held = self._held, deque()
        return list(held)

    def _is_live(self, frame: FrameT) -> bool:
        if self._first is None or self._last is None:
            return False
        gap = frame.seconds - self._last.seconds
        if gap <= 0:  # decreasing times are unusable
            return frame.waited_seconds >= _WAIT_SECONDS
        elapsed_seconds = (frame.arrived_ns - self._first.arrived_ns) / 1e9
        return frame.waited_seconds >= _WAIT_SHARE * gap or elapsed_seconds > _MAX_SECONDS

    def _drop_outdated(self, before_seconds: float) -> Iterator[FrameT | DroppedItem]:
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
