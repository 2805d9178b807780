"""Right after connecting: leave out what the server had kept, and go on at the present."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from headrace.runtime.item import Dropped

BACKLOG: Final = "backlog"
"""Why a frame is dropped that the server had kept from before it was asked."""
_WAITED: Final = 0.25
"""Of the interval between two frames: a read that waited so long waited for the camera."""
_WAITED_SECONDS: Final = 0.01
"""The same where no interval is known."""
_LONGEST_SECONDS: Final = 5.0
"""After which joining is over in any case: this machine may be too slow to ever wait."""


class Timed(Protocol):
    """What a frame must tell to be judged."""

    @property
    def seconds(self) -> float:
        """Its place on the timeline of the stream."""
        ...

    @property
    def arrived_ns(self) -> int:
        """When it was handed over."""
        ...


FrameT = TypeVar("FrameT", bound=Timed)


class Joining(Generic[FrameT]):
    """Holds frames back while they come without a wait, and drops all but the newest of them.

    What a server has kept comes as fast as it can be read; the first read that has to wait waited
    for the camera, and joining is over. So the first picture is late by one interval.
    """

    def __init__(
        self, limit_seconds: float, most: int, on_joined: Callable[[int, int], None]
    ) -> None:
        """Nothing came yet.

        Args:
            limit_seconds: How much older than the newest a frame may be to be kept.
            most: How many frames are kept at most.
            on_joined: Told, once it is over, how many milliseconds the first frame was behind, and
                how many frames were dropped.
        """
        self._limit_seconds = limit_seconds
        self._most = most
        self._on_joined = on_joined
        self._held: deque[FrameT | Dropped] = deque()
        self._first: FrameT | None = None
        self._last: FrameT | None = None
        self._kept = self._dropped = 0
        self._is_over = False

    def take(self, frame: FrameT | Dropped, waited_seconds: float) -> Iterator[FrameT | Dropped]:
        """Yield what may go on now, in order, when a frame came after its read waited so long."""
        if self._is_over:
            yield frame
            return
        if isinstance(frame, Dropped):
            self._held.append(frame)
            return
        if self._is_present(frame, waited_seconds):
            yield from self.end()
            yield frame
            return
        self._first = self._first or frame
        self._last = frame
        self._held.append(frame)
        self._kept += 1
        yield from self._outdated(frame.seconds - self._limit_seconds)

    def end(self) -> Iterator[FrameT | Dropped]:
        """Yield what is held: the stream is over, or its present is reached."""
        if self._is_over:
            return
        self._is_over = True
        self._on_joined(self._behind_milliseconds(), self._dropped)
        yield from self._held
        self._held.clear()

    def _is_present(self, frame: FrameT, waited_seconds: float) -> bool:
        if self._first is None or self._last is None:
            return False
        gap = frame.seconds - self._last.seconds
        if gap <= 0:  # times that go back tell nothing
            return waited_seconds >= _WAITED_SECONDS
        elapsed_seconds = (frame.arrived_ns - self._first.arrived_ns) / 1e9
        return waited_seconds >= _WAITED * gap or elapsed_seconds > _LONGEST_SECONDS

    def _outdated(self, before_seconds: float) -> Iterator[FrameT | Dropped]:
        while self._held:
            oldest = self._held[0]
            if not isinstance(oldest, Dropped):
                if oldest.seconds >= before_seconds and self._kept <= self._most:
                    return
                oldest = Dropped(BACKLOG)
                self._kept -= 1
                self._dropped += 1
            self._held.popleft()
            yield oldest

    def _behind_milliseconds(self) -> int:
        if self._first is None or self._last is None:
            return 0
        shown_seconds = self._last.seconds - self._first.seconds
        passed_seconds = (self._last.arrived_ns - self._first.arrived_ns) / 1e9
        return max(0, round((shown_seconds - passed_seconds) * 1000))
