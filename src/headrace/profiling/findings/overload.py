"""Overload of a live session: whether it kept up with its sources."""

from typing import Final

from headrace.profiling.findings.finding import Finding
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import counted
from headrace.profiling.number_format import whole_percent as percent
from headrace.profiling.session import Session

_MAX_GROWTH_MS: Final = 1_000.0
"""Max growth of latency, in milliseconds, of a session that keeps up."""
_PARTS: Final = 10
"""Number of parts of a session; growth is measured from the first to the last part."""
_MAX_DROPS: Final = 0.05
"""Max share of dropped frames of a session that keeps up; a reconnection may drop some."""
_OVERLOAD_CAUSES: Final = ("overflow", "stale", "late")
"""Causes of drops that indicate overload."""


def find_overload(session: Session) -> Finding | None:
    """Return the finding on overload; None at full speed."""
    latency = Metrics.of(session).latency
    if session.items is None or latency is None:
        return None
    drops = _overload_drops(session)
    share = sum(drops.values()) / max(1, session.items.arrived)
    evidence = tuple(
        f"{counted(frames, 'frame')}: {cause} at {stage}."
        for (stage, cause), frames in sorted(drops.items(), key=lambda drop: -drop[1])
    )
    if share > _MAX_DROPS:
        if session.provenance.configuration.get("overload") == "keep-last":
            evidence += ("--overload keep-last drops by design: the newest frame is kept.",)
        return Finding(
            headline=f"Frames came faster than they were processed: {percent(share)} were dropped.",
            evidence=evidence,
        )
    growth_ms = _measure_growth_ms(session)
    if growth_ms > _MAX_GROWTH_MS:
        return Finding(
            headline=f"Fell behind: latency grew by {growth_ms / 1e3:.1f} s, because every frame "
            "was kept.",
            change="--overload keep-last, if the newest frames are what you need.",
        )
    return Finding(
        headline=f"Kept up: {'few' if drops else 'no'} frames were dropped for overload; latency "
        f"{latency.ms.p50:.0f} ms from {latency.base} (median of "
        f"{counted(latency.ms.count, 'step')}).",
        bound_by=("source",),
        evidence=evidence,
    )


def arrived_per_delivered(session: Session) -> float:
    """Return (frames delivered + frames dropped for overload) ÷ frames delivered."""
    if session.items is None or not session.items.delivered:
        return 1.0
    return 1.0 + sum(_overload_drops(session).values()) / session.items.delivered


def _overload_drops(session: Session) -> dict[tuple[str, str], int]:
    """Return (stage, cause) → frames dropped for overload; drops of sinks do not count."""
    return {
        (stage.name, cause): frames
        for stage in session.stages
        for cause, frames in stage.dropped.items()
        if cause in _OVERLOAD_CAUSES and frames and stage.role != "sink"
    }


def _measure_growth_ms(session: Session) -> float:
    """Return the mean latency of the last tenth of the steps minus that of the first tenth."""
    ages = [
        step.ended_ms - step.arrived_ms
        for step in session.steps.rows()
        if step.arrived_ms is not None
    ][session.warmup_steps :]
    size = len(ages) // _PARTS
    return (sum(ages[-size:]) - sum(ages[:size])) / size if size else 0.0
