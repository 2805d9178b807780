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
]


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened."""

    at_ns: int
    """By the pipeline's clock."""
    source: int
    """Place of the source in the list that was asked for."""
    kind: EventKind
    words: str
    """For a reader, without credentials: `joined 640 ms behind`, `no frame for 2.0 s`."""
    frames: int = 0
    """How many frames it cost, where that is known."""
