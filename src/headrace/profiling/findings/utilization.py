"""Load of each stage: utilization while frames flowed, drops, and the gain of a faster stage."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.profiling.findings.loop_simulation import QUIET
from headrace.profiling.run_records import QueueRecord, Role, StageRecord
from headrace.profiling.session import Session


@dataclass(frozen=True, kw_only=True)
class StageUtilization:
    """Shares of the time from the start of the first step to the last output, without outages.

    Each share is in [0, 1], a mean over the workers of the stage.
    """

    name: str
    role: Role
    workers: int
    busy: float
    """Share at work. A stage near 1 is the bottleneck."""
    starved: float
    """Share without input: the stages before are slower."""
    blocked: float
    """Share without room in the next queue: the stages after are slower."""
    core_wait: float = 0.0
    """Share in which its threads waited for a core; not part of `busy` on a busy machine."""

    @property
    def idle(self) -> float:
        """Remaining share: before the first and after the last step of the stage, and waits of
        decoding threads for their turn."""
        return max(0.0, 1.0 - self.busy - self.starved - self.blocked)


def stage_loads(session: Session) -> tuple[StageUtilization, ...]:
    """Return the utilization of each stage, in the order of the frames; empty without steps.

    On a busy machine, waits for a core are subtracted, and the time in which frames flowed is
    shortened so that the busiest stage stays as busy as it was.
    """
    seconds = flow_seconds(session)
    if not seconds:
        return ()
    loads = tuple(_measure_stage(stage, seconds) for stage in session.stages)
    return _without_waits(loads) if is_corrected(session) else loads


def is_corrected(session: Session) -> bool:
    """Return whether waits for a core are subtracted: the machine was busy, and they are known."""
    waits = [stage.core_wait_seconds for stage in session.stages if stage.busy_seconds]
    return (session.others_cpu_share or 0.0) > QUIET and bool(waits) and None not in waits


def _without_waits(loads: Sequence[StageUtilization]) -> tuple[StageUtilization, ...]:
    """Return the loads without waits for a core; the busiest stage stays as busy as it was."""
    work = [max(0.0, load.busy - load.core_wait) for load in loads]
    scale = max(load.busy for load in loads) / max(1e-9, *work)
    return tuple(
        replace(
            load,
            busy=(busy := min(1.0, worked * scale)),
            blocked=(blocked := min(1.0 - busy, load.blocked)),
            starved=min(1.0 - busy - blocked, load.starved),
        )
        for load, worked in zip(loads, work, strict=True)
    )


def flow_seconds(session: Session) -> float:
    """Return the time from the start of the first step to the last output, without outages.

    0 without steps.
    """
    steps = session.steps
    if not len(steps):
        return 0.0
    seconds = (steps.started_ms[-1] + steps.total_ms[-1] - steps.started_ms[0]) / 1e3
    return max(0.0, seconds - outage_seconds(session))


def outage_seconds(session: Session) -> float:
    """Return the time in which all sources of a live session were disconnected.

    An outage that no reconnection ended is not included.
    """
    away, since, total = set[int](), 0.0, 0.0
    for event in session.events:
        if event.source is None:
            continue
        if event.kind == "disconnected":
            away.add(event.source)
            since = event.at_seconds
        elif event.kind == "reconnected":
            if len(away) == len(session.sources):
                total += event.at_seconds - since
            away.discard(event.source)
    return total


def occupancy(queue: QueueRecord, session: Session) -> float:
    """Return the mean occupancy of a queue while frames flowed."""
    return min(1.0, queue.occupancy_mean * queue.elapsed_seconds / flow_seconds(session))


def _measure_stage(stage: StageRecord, seconds: float) -> StageUtilization:
    total = stage.workers * seconds
    busy = min(1.0, stage.busy_seconds / total)
    blocked = min(1.0 - busy, stage.blocked_seconds / total)
    # The record also has the wait for the first step, before frames flowed.
    starved = min(1.0 - busy - blocked, stage.starved_seconds / total)
    return StageUtilization(
        name=stage.name,
        role=stage.role,
        workers=stage.workers,
        busy=busy,
        starved=starved,
        blocked=blocked,
        core_wait=min(1.0, (stage.core_wait_seconds or 0.0) / total),
    )


def gain(
    session: Session, top: StageUtilization, others: Sequence[StageUtilization], factor: float
) -> float:
    """Return the end-to-end speed-up if the stage `top` were `factor` times as fast.

    The next busiest stage limits the gain. If the stages keep more threads busy than there are
    cores, their times include waits for a core, which are redistributed. The gain is smaller if the
    faster stage uses more cores.
    """
    cores = session.provenance.machine.usable_cores if session.setup.device == "cpu" else None
    rest = [(load.busy, load.workers) for load in others]
    # Busy time includes waits for a core.
    threads = top.busy * top.workers + sum(busy * workers for busy, workers in rest)
    core_share = min(1.0, cores / threads) if cores and threads else 1.0
    before = _pace([(top.busy, top.workers), *rest], core_share, cores)
    after = _pace([(top.busy / factor, top.workers), *rest], core_share, cores)
    return before / after if after else factor


def _pace(loads: Sequence[tuple[float, int]], core_share: float, cores: int | None) -> float:
    """Return the time that the stages need ÷ the recorded time."""
    slowest = max(busy for busy, _ in loads)
    shared = sum(busy * workers for busy, workers in loads) / cores if cores else 0.0
    return core_share * max(slowest, shared)


def is_parallel_sink(stage: StageRecord, session: Session) -> bool:
    """Return whether a stage is a sink of a live run, with its own thread and queue."""
    return stage.role == "sink" and stage.name not in session.steps.work_ms


def pacing_loads(session: Session) -> tuple[StageUtilization, ...]:
    """Return the utilization of the stages that can hold up the run, in the order of the frames.

    In a live run with --overload keep-last, a slow sink loses results instead.
    """
    loads = stage_loads(session)
    if session.kind != "live" or session.provenance.configuration.get("overload") == "keep-all":
        return loads
    lossy = {stage.name for stage in session.stages if is_parallel_sink(stage, session)}
    return tuple(load for load in loads if load.name not in lossy)


_OVERLOAD_CAUSES: Final = ("overflow", "stale", "late")
"""Causes of drops that indicate overload."""


def arrived_per_delivered(session: Session) -> float:
    """Return (frames delivered + frames dropped for overload) ÷ frames delivered."""
    if session.items is None or not session.items.delivered:
        return 1.0
    return 1.0 + sum(overload_drops(session).values()) / session.items.delivered


def overload_drops(session: Session) -> dict[tuple[str, str], int]:
    """Return (stage, cause) → frames dropped for overload, without losses of parallel sinks."""
    return {
        (stage.name, cause): frames
        for stage in session.stages
        for cause, frames in stage.dropped.items()
        if cause in _OVERLOAD_CAUSES and frames and not is_parallel_sink(stage, session)
    }
