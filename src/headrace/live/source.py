"""A source: what it is called, and its frames as they come."""

from collections.abc import Callable, Iterator
from typing import Protocol

from headrace.live.events import Event
from headrace.live.frame import LiveFrame
from headrace.profiling.session import Pace
from headrace.runtime.item import Dropped
from headrace.runtime.waiter import Waiter


class LiveSource(Protocol):
    """A camera, a network stream, a test pattern, or a file that is read in real time."""

    @property
    def name(self) -> str:
        """For a reader, without credentials."""
        ...

    @property
    def base(self) -> Pace:
        """What latency counts from: `schedule` of a paced file, `arrival` of all others; a source
        whose sender tells its clock gives capture times besides."""
        ...

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | Dropped]:
        """Yield its frames as they come, and `Dropped` for each that was left out, in its place.

        Every wait goes through `waiter`, so that it counts as one and can be ended; what the waiter
        raises must go through. Ends where the source ends, or raises when it cannot go on.

        Args:
            number: Place of the source in the list that was asked for; goes into every frame.
            waiter: Where it waits; its `clock` gives `arrived_ns`.
            note: Told of everything that happens, from the thread that reads.

        Raises:
            OpenError: the first connection fails, or reconnecting was given up; no credentials in
                its words.
        """
        ...
