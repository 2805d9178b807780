"""Right after connecting: leave out what the server had kept, and go on at the present."""

from collections import deque
from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

from headrace.runtime.item import DroppedItem
from headrace.runtime.stage_executor import OVERFLOW

LATE: Final = "late"
"""Why a frame is dropped that was skipped, up to the next keyframe, to catch up."""
_LAG_WAIT_SECONDS: Final = 0.002
"""A read that takes so long had to wait: nothing lies ready, so nothing is late."""


class DecodeLag:
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
        if self._present is None or waited_seconds >= _LAG_WAIT_SECONDS:
            self._present = seconds, arrived_ns
        present_seconds, present_ns = self._present
        behind_seconds = (arrived_ns - present_ns) / 1e9 - (seconds - present_seconds)
        enough = self._limit_seconds / 2 if self.is_late else self._limit_seconds
        self.is_late = behind_seconds > enough


BACKLOG: Final = "backlog"
"""Why a frame is dropped that the server had kept from before it was asked."""
_WAITED: Final = 0.25
"""Of the interval between two frames: a read that waited so long waited for the camera."""
_WAITED_SECONDS: Final = 0.01
"""The same where no interval is known."""
_SILENT_SECONDS: Final = 0.2
"""Without a frame, after which nothing is left of a backlog."""
_LONGEST_SECONDS: Final = 5.0
"""After which joining is over in any case: this machine may be too slow to ever wait."""


class TimedFrame(Protocol):
    """What a frame must tell to be judged."""

    @property
    def seconds(self) -> float:
        """Its place on the timeline of the stream."""
        ...

    @property
    def arrived_ns(self) -> int:
        """When it was handed over."""
        ...

    @property
    def waited_seconds(self) -> float:
        """How long the read of it had to wait."""
        ...


FrameT = TypeVar("FrameT", bound=TimedFrame)


class LiveEdge(Generic[FrameT]):
    """Holds frames back while they come without a wait, and drops all but the newest of them.

    What a server has kept comes as fast as it can be read; the first read that has to wait waited
    for the camera, and joining is over. So the first picture is late by one interval.
    """

    def __init__(self, limit_seconds: float, most: int) -> None:
        """Nothing came yet.

        Args:
            limit_seconds: How much older than the newest a frame may be to be kept.
            most: How many frames are kept at most.
        """
        self._limit_seconds = limit_seconds
        self._most = most
        self._held: deque[FrameT | DroppedItem] = deque()
        self._first: FrameT | None = None
        self._last: FrameT | None = None
        self._kept = 0
        self.dropped = 0
        """Frames of the backlog that were dropped."""
        self.is_over = False

    @property
    def until_ns(self) -> int | None:
        """When it is over if nothing comes; None: nothing is held."""
        if self.is_over or self._last is None:
            return None
        return self._last.arrived_ns + round(_SILENT_SECONDS * 1e9)

    @property
    def behind_milliseconds(self) -> int:
        """How far the first frame was behind the present."""
        if self._first is None or self._last is None:
            return 0
        shown_seconds = self._last.seconds - self._first.seconds
        passed_seconds = (self._last.arrived_ns - self._first.arrived_ns) / 1e9
        return max(0, round((shown_seconds - passed_seconds) * 1000))

    def take(self, item: FrameT | DroppedItem) -> list[FrameT | DroppedItem]:
        """Return what may go on now, in order."""
        if self.is_over:
            return [item]
        if isinstance(item, DroppedItem):
            is_of_backlog = item.cause == OVERFLOW
            self.dropped += is_of_backlog
            self._held.append(DroppedItem(BACKLOG) if is_of_backlog else item)
            return []
        if self._is_present(item):
            return [*self.end(), item]
        self._first = self._first or item
        self._last = item
        self._held.append(item)
        self._kept += 1
        return list(self._drop_outdated(item.seconds - self._limit_seconds))

    def end(self) -> list[FrameT | DroppedItem]:
        """Return what is held: the stream is over, or its present is reached."""
        self.is_over = True
        held, self._held = self._held, deque()
        return list(held)

    def _is_present(self, frame: FrameT) -> bool:
        if self._first is None or self._last is None:
            return False
        gap = frame.seconds - self._last.seconds
        if gap <= 0:  # times that go back tell nothing
            return frame.waited_seconds >= _WAITED_SECONDS
        elapsed_seconds = (frame.arrived_ns - self._first.arrived_ns) / 1e9
        return frame.waited_seconds >= _WAITED * gap or elapsed_seconds > _LONGEST_SECONDS

    def _drop_outdated(self, before_seconds: float) -> Iterator[FrameT | DroppedItem]:
        while self._held:
            oldest = self._held[0]
            if not isinstance(oldest, DroppedItem):
                if oldest.seconds >= before_seconds and self._kept <= self._most:
                    return
                oldest = DroppedItem(BACKLOG)
                self._kept -= 1
                self.dropped += 1
            self._held.popleft()
            yield oldest
