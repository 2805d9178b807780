"""State of a live run at this moment: its events as lines, and what its page shows."""

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Final

import numpy as np

from headrace.errors import first_line
from headrace.live.source import Event, EventKind, LiveSource
from headrace.profiling.session import Pace
from headrace.profiling.stage_records import ItemCounts
from headrace.profiling.steps import Step
from headrace.runs.live.flow import LiveFlow, Reading
from headrace.runs.live.showing import Results
from headrace.runtime.clock import SYSTEM_CLOCK, Clock, WallTime, iso_text
from headrace.runtime.distribution import Distribution
from headrace.runtime.fan_out import FanOut
from headrace.runtime.stage import StageStatistics
from headrace.sinks.web.status import (
    DropStatus,
    EventStatus,
    LatencyStatus,
    LiveStatus,
    QueueStatus,
    RunState,
    SourceState,
    SourceStatus,
    StageStatus,
)

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


WINDOW_SECONDS: Final = 30.0
"""Of the latest results the figures are of: enough for a p95 at 3 results a second."""
_MOST_KEPT: Final = 4_096
_EVENTS_SHOWN: Final = 12
_STATES: Final[dict[str, SourceState]] = {
    "joined": "live",
    "resumed": "live",
    "reconnected": "live",
    "stalled": "stalled",
    "disconnected": "reconnecting",
    "ended": "ended",
}


@dataclass(frozen=True)
class _Result:
    """One step that came out."""

    at_ns: int
    step: Step


@dataclass(eq=False)
class StatusBoard:
    """Knows how a run is: `add` each step, and ask for the `status` from any thread."""

    title: str
    """What runs on what; no credentials."""
    base: Pace
    clock: Clock = SYSTEM_CLOCK
    _results: deque[_Result] = field(default_factory=lambda: deque(maxlen=_MOST_KEPT))
    _began_ns: int | None = None
    _flow: LiveFlow | None = None
    _fan: FanOut[Results] | None = None
    _is_over: bool = False

    def begin(self, flow: LiveFlow, fan: FanOut[Results]) -> None:
        """The run begins."""
        self._fan, self._began_ns, self._flow = fan, self.clock.now_ns(), flow

    def add(self, step: Step) -> None:
        """One step has come out."""
        self._results.append(_Result(self.clock.now_ns(), step))

    def end(self) -> None:
        """The run is over; what it was stays to be seen."""
        self._is_over = True

    def status(self) -> LiveStatus:
        """Return how the run is, at this moment; about a millisecond."""
        now_ns, flow, fan = self.clock.now_ns(), self._flow, self._fan
        kept = list(self._results)
        recent = [each for each in kept if now_ns - each.at_ns <= WINDOW_SECONDS * 1e9]
        state: RunState = "ended" if self._is_over else "running" if kept else "starting"
        began_ns = now_ns if self._began_ns is None else self._began_ns
        intervals_ms = np.diff([each.at_ns for each in recent]) / 1e6
        stages = () if flow is None else flow.run.stages()
        seconds = max(1e-9, (now_ns - began_ns) / 1e9)
        return LiveStatus(
            title=self.title,
            state=state,
            wall_seconds=self.clock.wall_seconds(),
            running_seconds=(now_ns - began_ns) / 1e9,
            seconds_since_last_result=(now_ns - kept[-1].at_ns) / 1e9 if kept else None,
            fps=sum(each.step.frames for each in recent if now_ns - each.at_ns <= 1e9),
            latency=self._latency([each.step for each in recent]) if kept else None,
            jitter_ms=float(intervals_ms.std()) if len(intervals_ms) > 1 else None,
            frames=_counts(flow),
            drops=_drops(stages),
            sink_drops=_drops(() if fan is None else fan.statistics()),
            sources=() if flow is None else tuple(self._sources(flow, now_ns)),
            stages=tuple(_stage(each, [r.step for r in recent], seconds) for each in stages),
            queues=_queues(flow, fan),
            events=() if flow is None else self._events(flow, now_ns),
        )

    def _latency(self, steps: Sequence[Step]) -> LatencyStatus | None:
        if self.base == "full_speed":
            return None
        ages = [s.ended_ms - s.arrived_ms for s in steps if s.arrived_ms is not None]
        spread = Distribution.of(ages)
        return LatencyStatus(
            base=self.base,
            window_seconds=WINDOW_SECONDS,
            count=len(ages),
            p50_ms=spread.p50 if spread else None,
            p95_ms=spread.p95 if spread else None,
        )

    def _sources(self, flow: LiveFlow, now_ns: int) -> Iterator[SourceStatus]:
        events = list(flow.events)
        for number, reading in enumerate(flow.readings):
            own = [event for event in events if event.source == number]
            size = reading.size
            state, since_ns, words = source_state(own, reading, self._began_ns or now_ns)
            yield SourceStatus(
                name=flow.plan.sources[number].name,
                state=state,
                since_seconds=max(0, now_ns - since_ns) / 1e9,
                words=words,
                fps=sum(now_ns - at_ns <= 1e9 for at_ns in list(reading.recent_ns)),
                height=size[0] if size else None,
                width=size[1] if size else None,
                frames=reading.arrived,
                reconnects=reading.told["reconnected"],
                stalls=reading.told["stalled"],
            )

    def _events(self, flow: LiveFlow, now_ns: int) -> tuple[EventStatus, ...]:
        wall = self.clock.wall_seconds()
        return tuple(
            EventStatus(
                wall_seconds=wall - (now_ns - event.at_ns) / 1e9,
                source="" if event.source is None else flow.plan.sources[event.source].name,
                kind=event.kind,
                words=event.words,
            )
            for event in list(flow.events)[: -_EVENTS_SHOWN - 1 : -1]
        )


def source_state(
    events: Sequence[Event], reading: Reading, began_ns: int
) -> tuple[SourceState, int, str]:
    """Return how a source is, since when, and what it last told of that.

    Args:
        events: Its own, in order.
        reading: How far it was read.
        began_ns: When the run began.
    """
    if reading.error is not None:
        return "failed", reading.failed_ns, first_line(reading.error)
    told = [event for event in events if event.kind in _STATES]
    if told:
        state = _STATES[told[-1].kind]
        # A further attempt to connect is news, but the state is as old as its first event.
        first = len(told) - 1
        while first and _STATES[told[first - 1].kind] == state:
            first -= 1
        return state, told[first].at_ns, told[-1].words
    return ("live" if reading.has_frames else "connecting"), began_ns, ""


def _counts(flow: LiveFlow | None) -> ItemCounts:
    if flow is None:
        return ItemCounts(arrived=0, delivered=0, dropped=0, in_flight=0)
    return ItemCounts.of(flow.run.flow())


def _drops(stages: Sequence[StageStatistics]) -> tuple[DropStatus, ...]:
    found = [
        DropStatus(stage=stage.name, cause=cause, items=items)
        for stage in stages
        for cause, items in stage.dropped.items()
    ]
    return tuple(sorted(found, key=lambda drop: -drop.items))


def _stage(found: StageStatistics, steps: Sequence[Step], seconds: float) -> StageStatus:
    work = Distribution.of([s.work_ms[found.name] for s in steps if found.name in s.work_ms])
    return StageStatus(
        name=found.name,
        p50_ms=work.p50 if work else None,
        p95_ms=work.p95 if work else None,
        busy=min(1.0, found.busy_seconds / (found.workers * seconds)),
    )


def _queues(flow: LiveFlow | None, fan: FanOut[Results] | None) -> tuple[QueueStatus, ...]:
    found = [] if flow is None else [*flow.run.queues()[:-1]]
    found += [] if fan is None else fan.queues()
    return tuple(QueueStatus(name=q.name, depth=q.depth, capacity=q.capacity) for q in found)
