"""Did a live session keep up with what came?"""

from typing import Final

from headrace.profiling.findings.finding import Finding
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import counted
from headrace.profiling.number_format import whole_percent as percent
from headrace.profiling.session import Session

_LATE: Final = 1_000.0
"""Milliseconds by which latency has grown when a session has fallen behind."""
_TENTH: Final = 10
_FEW: Final = 0.05
"""Share of the frames; so many may be dropped in a moment's hiccup, as after a reconnection."""
_TOO_MANY: Final = ("overflow", "stale", "late")
"""Causes of drops that say that frames were too many."""


def keeping_up(session: Session) -> Finding | None:
    """Return whether frames were too many; None at full speed, where they never are."""
    latency = Metrics.of(session).latency
    if session.items is None or latency is None:
        return None
    drops = {
        (stage.name, cause): frames
        for stage in session.stages
        for cause, frames in stage.dropped.items()
        if cause in _TOO_MANY and frames and stage.role != "sink"
    }
    share = sum(drops.values()) / max(1, session.items.arrived)
    evidence = tuple(
        f"{counted(frames, 'frame')}: {cause} at {stage}."
        for (stage, cause), frames in sorted(drops.items(), key=lambda each: -each[1])
    )
    if share > _FEW:
        return Finding(
            headline=f"Frames came faster than they were worked on: {percent(share)} were dropped.",
            evidence=evidence,
        )
    grown = _grown_ms(session)
    if grown > _LATE:
        return Finding(
            headline=f"Fell behind: latency grew by {grown / 1e3:.1f} s, since every frame was "
            "kept.",
            change="--overload keep-last, if the newest frames are what you need.",
        )
    return Finding(
        headline=f"Kept up: {'hardly any' if drops else 'no'} frame was too many; latency "
        f"{latency.ms.p50:.0f} ms from {latency.base} (median of "
        f"{counted(latency.ms.count, 'step')}).",
        bound_by=("source",),
        evidence=evidence,
    )


def _grown_ms(session: Session) -> float:
    """By how much the last tenth of the steps came out later after its arrival than the first."""
    ages = [
        step.ended_ms - step.arrived_ms
        for step in session.steps.rows()
        if step.arrived_ms is not None
    ][session.warmup_steps :]
    few = len(ages) // _TENTH
    return (sum(ages[-few:]) - sum(ages[:few])) / few if few else 0.0
