"""What a live session records besides its steps: its sources, and what happened when."""

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.profiling.provenance import Record, Text


class SourceRecord(Record):
    """One source that was read as it came."""

    name: Text
    """For a reader, without credentials."""
    arrived: NonNegativeInt
    """Frames it gave, those that were dropped included."""
    error: Text | None = None
    """Why it ended before its time."""


class EventRecord(Record):
    """One thing that happened during a session."""

    at_seconds: NonNegativeFloat
    """Since the start of the run."""
    source: NonNegativeInt | None
    """Place in the session's sources; None: no source, but a sink."""
    kind: Text
    """`joined`, `stalled`, `resumed`, `disconnected`, `reconnected`, `resized`, `dropped`, `ended`,
    `failed`."""
    words: Text
    """For a reader."""
    frames: NonNegativeInt = 0
    """How many frames it cost, where that is known."""
