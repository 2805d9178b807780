"""Status of a live run: events as log lines, and the values of the live page."""

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Final

import numpy as np

from headrace.errors import first_line
from headrace.live.live_source import Event, EventKind, LiveSource
from headrace.profiling.run_records import ItemCounts
from headrace.profiling.session import Pace, Step
from headrace.runs.live.live_batches import LiveSinks, Results
from headrace.runs.live.live_pipeline import LivePipeline, SourceProgress
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

_EXPECTED: frozenset[EventKind] = frozenset(["joined", "ended"])
"""Kinds of events of files and patterns that need no notice."""


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Event of a live run, as a log line."""

    time: datetime
    """UTC, by this machine's clock at the start of the run."""
    event: EventKind
    source: str | None
    """Name of the source, without credentials; None: a sink, or the run."""
    reason: str
    """Description, without credentials."""
    frames: int = 0
    """Lost frames, where known."""

    def text(self) -> str:
        """Return a text line: `2026-01-31T12:00:00Z rtsp://door/live: no frame for 1.5 s`."""
        source = "" if self.source is None else f"{self.source}: "
        return f"{self.time:%Y-%m-%dT%H:%M:%SZ} {source}{self.reason}"

    def json(self) -> str:
        """Return one line of JSON: an object with these fields."""
        return json.dumps(asdict(self), ensure_ascii=False, default=iso_text)


def notice_sender(
    sources: Sequence[LiveSource], wall: WallTime, on_notice: Callable[[Notice], None]
) -> Callable[[Event], None]:
    """Return a function that sends the notice of an event, at once and in the same thread."""

    def send(event: Event) -> None:
        source = None if event.source is None else sources[event.source]
        if source is not None and source.base != "arrival" and event.kind in _EXPECTED:
            return
        on_notice(
            Notice(
                time=wall.at(event.at_ns),
                event=event.kind,
                source=None if source is None else source.name,
                reason=event.words,
                frames=event.frames,
            )
        )

    return send


WINDOW_SECONDS: Final = 30.0
"""Window of the latency figures: long enough for a p95 at 3 results per second."""
_MAX_STEPS: Final = 4_096
"""Max stored steps, the latest."""
_MAX_EVENTS: Final = 12
"""Max events in a status, the latest."""
_STATES: Final[dict[str, SourceState]] = {
    "joined": "live",
    "resumed": "live",
    "reconnected": "live",
    "stalled": "stalled",
    "disconnected": "reconnecting",
    "ended": "ended",
}


@dataclass(eq=False)
class StatusBoard:
    """Status of a live run: `add` each step in one thread, read `status` in any thread."""

    title: str
    """Model and sources, without credentials."""
    base: Pace
    clock: Clock = SYSTEM_CLOCK
    _steps: deque[tuple[int, Step]] = field(default_factory=lambda: deque(maxlen=_MAX_STEPS))
    """(completion in ns, step)"""
    _start_ns: int | None = None
    _pipeline: LivePipeline | None = None
    _sinks: LiveSinks | None = None
    _is_over: bool = False

    def start(self, pipeline: LivePipeline, sinks: LiveSinks) -> None:
        """Start the clock of the run."""
        self._sinks, self._start_ns, self._pipeline = sinks, self.clock.now_ns(), pipeline

    def add(self, step: Step) -> None:
        """Add a completed step."""
        self._steps.append((self.clock.now_ns(), step))

    def stop(self) -> None:
        """End the run; the last status remains."""
        self._is_over = True

    def status(self) -> LiveStatus:
        """Return the current status. Takes about a millisecond."""
        now_ns, pipeline = self.clock.now_ns(), self._pipeline
        fan = None if self._sinks is None else self._sinks.fan
        steps = list(self._steps)
        window = [(at_ns, step) for at_ns, step in steps if now_ns - at_ns <= WINDOW_SECONDS * 1e9]
        recent = [step for _, step in window]
        state: RunState = "ended" if self._is_over else "running" if steps else "starting"
        start_ns = now_ns if self._start_ns is None else self._start_ns
        intervals_ms = np.diff([at_ns for at_ns, _ in window]) / 1e6
        stages = () if pipeline is None else pipeline.run.stages()
        seconds = max(1e-9, (now_ns - start_ns) / 1e9)
        return LiveStatus(
            title=self.title,
            state=state,
            wall_seconds=self.clock.wall_seconds(),
            running_seconds=(now_ns - start_ns) / 1e9,
            seconds_since_last_result=(now_ns - steps[-1][0]) / 1e9 if steps else None,
            fps=sum(step.frames for at_ns, step in window if now_ns - at_ns <= 1e9),
            latency=self._latency(recent) if steps else None,
            jitter_ms=float(intervals_ms.std()) if len(intervals_ms) > 1 else None,
            frames=_counts(pipeline),
            drops=_drops(stages),
            sink_drops=_drops(() if fan is None else fan.statistics()),
            sources=() if pipeline is None else tuple(self._sources(pipeline, now_ns)),
            stages=tuple(_stage_status(stage, recent, seconds) for stage in stages),
            queues=_queues(pipeline, fan),
            events=() if pipeline is None else self._events(pipeline, now_ns),
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

    def _sources(self, pipeline: LivePipeline, now_ns: int) -> Iterator[SourceStatus]:
        events = list(pipeline.events)
        for number, progress in enumerate(pipeline.progress):
            source_events = [event for event in events if event.source == number]
            size = progress.size
            state, since_ns, words = source_state(source_events, progress, self._start_ns or now_ns)
            yield SourceStatus(
                name=pipeline.plan.sources[number].name,
                state=state,
                since_seconds=max(0, now_ns - since_ns) / 1e9,
                words=words,
                fps=sum(now_ns - at_ns <= 1e9 for at_ns in list(progress.recent_ns)),
                height=size[0] if size else None,
                width=size[1] if size else None,
                frames=progress.arrived,
                reconnects=progress.event_counts["reconnected"],
                stalls=progress.event_counts["stalled"],
            )

    def _events(self, pipeline: LivePipeline, now_ns: int) -> tuple[EventStatus, ...]:
        wall, of_sinks = self.clock.wall_seconds(), self._sinks.events if self._sinks else ()
        events = sorted((*pipeline.events, *of_sinks), key=lambda event: event.at_ns)
        return tuple(
            EventStatus(
                wall_seconds=wall - (now_ns - event.at_ns) / 1e9,
                source="" if event.source is None else pipeline.plan.sources[event.source].name,
                kind=event.kind,
                words=event.words,
            )
            for event in events[: -_MAX_EVENTS - 1 : -1]
        )


def source_state(
    events: Sequence[Event], progress: SourceProgress, start_ns: int
) -> tuple[SourceState, int, str]:
    """Return the state of a source, its start in ns, and the text of the last event.

    Args:
        events: Events of the source, in order.
        progress: Progress of the source.
        start_ns: Start of the run.
    """
    if progress.error is not None:
        return "failed", progress.failed_ns, first_line(progress.error)
    changes = [event for event in events if event.kind in _STATES]
    if changes:
        state = _STATES[changes[-1].kind]
        # Later connection attempts are events too, but the state starts with the first.
        first = len(changes) - 1
        while first and _STATES[changes[first - 1].kind] == state:
            first -= 1
        return state, changes[first].at_ns, changes[-1].words
    return ("live" if progress.has_frames else "connecting"), start_ns, ""


def _counts(pipeline: LivePipeline | None) -> ItemCounts:
    if pipeline is None:
        return ItemCounts(arrived=0, delivered=0, dropped=0, in_flight=0)
    return ItemCounts.of(pipeline.run.flow())


def _drops(stages: Sequence[StageStatistics]) -> tuple[DropStatus, ...]:
    drops = [
        DropStatus(stage=stage.name, cause=cause, items=items)
        for stage in stages
        for cause, items in stage.dropped.items()
    ]
    return tuple(sorted(drops, key=lambda drop: -drop.items))


def _stage_status(stage: StageStatistics, steps: Sequence[Step], seconds: float) -> StageStatus:
    work = Distribution.of([s.work_ms[stage.name] for s in steps if stage.name in s.work_ms])
    return StageStatus(
        name=stage.name,
        p50_ms=work.p50 if work else None,
        p95_ms=work.p95 if work else None,
        busy=min(1.0, stage.busy_seconds / (stage.workers * seconds)),
    )


def _queues(pipeline: LivePipeline | None, fan: FanOut[Results] | None) -> tuple[QueueStatus, ...]:
    queues = [] if pipeline is None else [*pipeline.run.queues()[:-1]]
    queues += [] if fan is None else fan.queues()
    return tuple(QueueStatus(name=q.name, depth=q.depth, capacity=q.capacity) for q in queues)
