"""What a live session records besides its steps: its sources, and what happened when."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.profiling.provenance import Record, Text
from headrace.video.content import content_digest


class SourceRecord(Record):
    """One source that was read as it came."""

    name: Text
    """For a reader, without credentials."""
    arrived: NonNegativeInt
    """Frames it gave, those that were dropped included."""
    error: Text | None = None
    """Why it ended before its time."""
    content: Text | None = None
    """What is in it, where it is a file, as of a video that is read at full speed."""


def with_file_content(sources: Sequence[SourceRecord]) -> tuple[SourceRecord, ...]:
    """Return the sources, those that are files with the digest of each; after a run."""
    ids = {
        name: content_digest(Path(name)) for name in {s.name for s in sources if _is_file(s.name)}
    }
    return tuple(s.model_copy(update={"content": ids.get(s.name)}) for s in sources)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False  # an address that no path can look like


class EventRecord(Record):
    """One thing that happened during a session."""

    at_seconds: NonNegativeFloat
    """Since the start of the run."""
    source: NonNegativeInt | None
    """Place in the session's sources; None: no source, but a sink."""
    kind: Text
    """`joined`, `stalled`, `resumed`, `disconnected`, `reconnected`, `resized`, `timestamps`,
    `dropped`, `ended`, `failed`."""
    words: Text
    """For a reader."""
    frames: NonNegativeInt = 0
    """How many frames it cost, where that is known."""
