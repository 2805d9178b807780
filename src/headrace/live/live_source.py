"""Live frames, live sources, and clips of frames: per source, never across a gap."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.profiling.session import Pace
from headrace.runtime.clock import Clock
from headrace.runtime.stage import DroppedItem, Item, SlidingWindows
from headrace.runtime.waitable_source import Waiter
from headrace.units import check_integers


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class LiveFrame:
    """One decoded frame of a live source."""

    pixels: NDArray[np.uint8]
    """uint8 [H, W, 3] in [0, 255], RGB, upright."""
    source: int
    """Index of the source in the run."""
    number: int
    """0-based number of the frame in its source; dropped frames count."""
    run: int
    """Number of gaps before the frame: reconnections, dropped or lost frames, changes of size. All
    frames of a clip have one run."""
    pts: int
    """Presentation time in ticks of `time_base`; for formats without timestamps, the arrival time.
    Increases within a run."""
    time_base: Fraction
    """Seconds per tick."""
    arrived_ns: int
    """Arrival of its packet by the pipeline's clock; for a file in real time, the due time. Latency
    counts from this time."""
    segment: int = 0
    """0-based timeline of `pts`; a reconnection or a decreasing timestamp starts the next one. In a
    segment, pts increase."""
    captured_seconds: float | None = None
    """Unix time of the capture, by the sender's clock; None: not sent."""


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
"""`overloaded` and `recovered` are events of the run: start and end of an overload."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Event of a live source, or of the run."""

    at_ns: int
    """Time by the pipeline's clock."""
    source: int | None
    """Index of the source; None: a sink, or the whole run."""
    kind: EventKind
    words: str
    """Description, without credentials: `joined 640 ms behind`, `no frame for 2.0 s`."""
    frames: int = 0
    """Lost frames, where known."""


class Notify(Protocol):
    """Function that reports a current event of a source."""

    def __call__(self, kind: EventKind, words: str, frames: int = 0) -> None:
        """Report an event; the arguments are fields of `Event`."""


def notifier(source: int, clock: Clock, note: Callable[[Event], None]) -> Notify:
    """Return the function that reports the events of a source to `note`."""

    def notify(kind: EventKind, words: str, frames: int = 0) -> None:
        now_ns = clock.now_ns()
        note(Event(at_ns=now_ns, source=source, kind=kind, words=words, frames=frames))

    return notify


class LiveSource(Protocol):
    """Camera, network stream, test pattern, or file in real time."""

    @property
    def name(self) -> str:
        """Name for messages, without credentials."""
        ...

    @property
    def base(self) -> Pace:
        """Start of latency: `schedule` for a file in real time, else `arrival`."""
        ...

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | DroppedItem]:
        """Yield frames on arrival, and a `DroppedItem` for each skipped frame.

        Every wait must use `waiter`, which times and interrupts it; its exceptions must propagate.
        The iterator ends with the source, and raises if the source cannot continue.

        Args:
            number: Index of the source, for every frame.
            waiter: Waits for the source; `arrived_ns` is by its `clock`.
            note: Receives every event, in the reading thread.

        Raises:
            OpenError: the first connection failed, or all attempts to reconnect; the message has no
                credentials.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class ClipWindow:
    """Frames of a clip, and the distance to the next clip."""

    num_frames: int
    """Frames per clip."""
    stride: int = 1
    """Distance between frames of a clip; 1: consecutive frames."""
    hop: int | None = None
    """Frames from the start of a clip to the start of the next; None: clips do not overlap."""

    def __post_init__(self) -> None:
        check_integers(1, clip_len=self.num_frames, clip_stride=self.stride, clip_hop=self.hop)

    def windows(self) -> SlidingWindows[LiveFrame]:
        """Return a new grouping of frames into clips, for any number of sources.

        Frames of incomplete clips, before a gap and at the end, are dropped.
        """
        return SlidingWindows(
            length=self.num_frames,
            stride=self.stride,
            hop=self.hop,
            key=lambda item: item.value.source,
            breaks=is_gap,
            rest="drop",
        )


def clip_window_of(num_frames: int | None, *, stride: int, hop: int | None) -> ClipWindow | None:
    """Return the window for clips of `num_frames`; None: the model takes single frames.

    Raises:
        ConfigError: clip options are given for a model of single frames; a number is below 1.
    """
    if num_frames is not None:
        return ClipWindow(num_frames=num_frames, stride=stride, hop=hop)
    if stride != 1 or hop is not None:
        raise ConfigError(
            "clip_stride and clip_hop are for clips, and the model takes single frames; leave them "
            "out, give a video model such as r3d_18, or give clip_len with a custom callable"
        )
    return None


def is_gap(before: Item[LiveFrame], item: Item[LiveFrame]) -> bool:
    """Return whether there is a gap or a change of size between two frames of a source."""
    old, new = before.value, item.value
    return (
        new.run != old.run or new.number != old.number + 1 or new.pixels.shape != old.pixels.shape
    )
