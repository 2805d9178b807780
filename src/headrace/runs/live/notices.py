"""Events of a live run as its user hears of them: at once, a line each."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from headrace.live.events import Event, EventKind
from headrace.live.source import LiveSource
from headrace.runtime.clock import WallTime, iso_text

_USUAL: frozenset[EventKind] = frozenset(["joined", "ended"])
"""No news of a file or a pattern, which begin and end as they should."""


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One event."""

    time: datetime
    """UTC, by this machine's clock as it was at the start of the run."""
    event: EventKind
    source: str | None
    """Name of the source, without credentials; None: a sink, or the run as a whole."""
    reason: str
    """For a reader, without credentials."""
    frames: int = 0
    """How many frames it cost, where that is known."""

    def text(self) -> str:
        """Return it for people: `2026-01-31T12:00:00Z rtsp://door/live: no frame for 1.5 s`."""
        source = "" if self.source is None else f"{self.source}: "
        return f"{self.time:%Y-%m-%dT%H:%M:%SZ} {source}{self.reason}"

    def json(self) -> str:
        """Return it for programs: an object with these fields, on one line."""
        return json.dumps(asdict(self), ensure_ascii=False, default=iso_text)


@dataclass(frozen=True, kw_only=True)
class Notices:
    """Makes notices of what happens, and hands each on at once, from the thread it happens in."""

    sources: Sequence[LiveSource]
    wall: WallTime
    hear: Callable[[Notice], None]

    def event(self, event: Event) -> None:
        """Something happened to a source, or to the run."""
        source = None if event.source is None else self.sources[event.source]
        if source is not None and source.base != "arrival" and event.kind in _USUAL:
            return
        self.hear(
            Notice(
                time=self.wall.at(event.at_ns),
                event=event.kind,
                source=None if source is None else source.name,
                reason=event.words,
                frames=event.frames,
            )
        )

    def sink_failed(self, at_ns: int, words: str) -> None:
        """A sink failed, and ended alone."""
        self.event(Event(at_ns=at_ns, source=None, kind="failed", words=words))
