"""A frame as it came, with the moments of its way."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.profiling.session import Pace
from headrace.runtime.item import DroppedItem
from headrace.runtime.waitable_source import Waiter


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class LiveFrame:
    """One decoded frame of a source that is read as it comes."""

    pixels: NDArray[np.uint8]
    """uint8 [H, W, 3] in [0, 255], RGB, upright."""
    source: int
    """Place of the source in the list that was asked for."""
    number: int
    """Frames of this source before it, those that were dropped counted too."""
    run: int
    """Grows by one at every gap: a reconnection, frames that were dropped or lost, another size. A
    clip never holds frames of two runs."""
    pts: int
    """Presentation time in ticks of `time_base`, as the source gives it; of a format without times,
    when it arrived. Grows within a run."""
    time_base: Fraction
    """Seconds per tick."""
    arrived_ns: int
    """By the pipeline's clock: when its packet was handed over; for a file that is paced, when it
    was due. Latency counts from here."""
    segment: int = 0
    """Timeline that `pts` counts on, from 0: the next one begins with a reconnection, and where the
    source's own timestamps go back. Within one, pts grow."""
    captured_seconds: float | None = None
    """Wall clock of its capture (Unix time), by the sender's own clock; None where the sender tells
    none. Never filled in by anything else."""


EventKind = Literal[
    "joined",
    "stalled",
    "resumed",
    "disconnected",
    "reconnected",
    "resized",
    "timestamps",
    "dropped",
    "ended",
    "failed",
    "overloaded",
    "recovered",
]
"""`overloaded` and `recovered` are of the run as a whole: frames come faster than they are worked
on, or no longer do."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened."""

    at_ns: int
    """By the pipeline's clock."""
    source: int | None
    """Place of the source in the list that was asked for; None: a sink, or the run as a whole."""
    kind: EventKind
    words: str
    """For a reader, without credentials: `joined 640 ms behind`, `no frame for 2.0 s`."""
    frames: int = 0
    """How many frames it cost, where that is known."""


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
    ) -> Iterator[LiveFrame | DroppedItem]:
        """Yield frames as they come; `DroppedItem` stands in the place of a frame that is left out.

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
