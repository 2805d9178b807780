"""What happened to a source while it was read: the timeline of a live session."""

from dataclasses import dataclass
from typing import Literal

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
