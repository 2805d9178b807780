"""Fake live sources with a schedule."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from headrace.errors import HeadraceError
from headrace.live.live_source import Event, LiveFrame
from headrace.profiling.session import Pace
from headrace.runtime.stage import DroppedItem
from headrace.runtime.waitable_source import Waiter
from live.live_frames import frame

MS = 1_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class FakeSource:
    """Frames at intervals of `interval_ms`, then an error or the end."""

    count: int
    interval_ms: float = 10
    name: str = "fake"
    base: Pace = "schedule"
    dropped: Sequence[int] = ()
    """Numbers of dropped frames."""
    error: HeadraceError | None = None
    captured: bool = False
    reconnects: Sequence[int] = ()
    """Numbers of the first frames of later connections."""
    on_frame: Callable[[int], None] = lambda number: None
    """Called before each frame."""

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | DroppedItem]:
        start_ns, run = waiter.clock.now_ns(), 0
        note(Event(at_ns=start_ns, source=number, kind="joined", words="joined 5 ms behind"))
        for k in range(self.count):
            self.on_frame(k)
            due_ns = start_ns + round(k * self.interval_ms * MS)
            waiter.until(due_ns)
            if k in self.dropped:
                run += 1
                yield DroppedItem("damaged")
                continue
            segment = sum(first <= k for first in self.reconnects)
            value = frame(k, source=number, run=run, arrived_ns=due_ns, segment=segment)
            wall = waiter.clock.wall_seconds() if self.captured else None
            yield replace(value, captured_seconds=wall)
        if self.error is not None:
            raise self.error


class Endless(FakeSource):
    """Waits forever after its frames."""

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | DroppedItem]:
        yield from super().frames(number, waiter, note)
        waiter.wait_for(lambda: False)
