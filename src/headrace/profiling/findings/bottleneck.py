"""Which stage set the pace once frames flowed, and what would change it most?"""

from collections.abc import Sequence
from typing import Final

from headrace.profiling.findings.advice import best_change, overhead_change
from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.utilization import StageUtilization, occupancy, stage_loads
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import counted, listing
from headrace.profiling.number_format import whole_percent as percent
from headrace.profiling.session import Session
from headrace.profiling.stage_records import ROLES

WAITING: Final = 0.5
"""Share of the time without input from which the first stage waits for its source."""


def source(session: Session) -> Finding | None:
    """Return a finding where the first stage waited for frames more than half of the time."""
    loads = stage_loads(session)
    if not loads or loads[0].starved < WAITING or max(load.busy for load in loads) > WAITING:
        return None
    busiest = max(loads, key=lambda load: load.busy)
    return Finding(
        headline="Bound by the source: frames come no faster; "
        f"{loads[0].name} waited for them {percent(loads[0].starved)} of the time.",
        bound_by=("source",),
        evidence=(
            f"The busiest stage, {busiest.name}, worked {percent(busiest.busy)} of the time: "
            f"there is room for {1 / max(busiest.busy, 0.001):.2g} times the frames.",
        ),
    )


LOST: Final = 0.3
"""Share of the time at which no wait and no work accounts for a stage's time."""


def overhead(session: Session, evidence: tuple[str, ...]) -> Finding | None:
    """Return a finding where a stage had input and room, and was not at work, for much of the time.

    Between its steps a thread waits for Python's lock, and hands batches over. Larger batches do
    so less often.

    Args:
        session: What is asked; no stage was busy half of the time.
        evidence: What its loads show.
    """
    loads = stage_loads(session)
    lost = max(1.0 - load.busy - load.starved - load.blocked for load in loads)
    if lost < LOST:
        return None
    return Finding(
        headline=f"Bound by Python overhead: {percent(lost)} of the time a stage had input and "
        "room, and was not at work.",
        bound_by=("Python overhead",),
        evidence=evidence,
        advice=overhead_change(session, lost),
    )


ALIKE: Final = 0.9
"""A stage at least this fraction as busy as the busiest one cannot be told from it."""
BUSY: Final = 0.5
"""Below this share of the time no stage counts as what bound the run."""
ENOUGH_STEPS: Final = 90
"""Fewer measured steps are a hint only; a p95 needs as many."""


def pace(session: Session) -> Finding | None:
    """Return what set the pace; None where no step was recorded."""
    metrics = Metrics.of(session)
    loads = sorted(stage_loads(session), key=lambda load: load.busy, reverse=True)
    if not loads:
        return None
    top = loads[0]
    alike = [load for load in loads if load.busy >= ALIKE * top.busy]
    evidence = (
        _shares(stage_loads(session)),
        *_queue_evidence(session, top),
        *_core_evidence(session, loads),
        *amplification_evidence(metrics, "frame delivered"),
        *length_evidence(metrics),
    )
    if top.busy < BUSY:
        lost = overhead(session, evidence)
        return lost or Finding(
            headline="No stage was busy half of the time: the busiest, "
            f"{ROLES[top.role].phrase}, {percent(top.busy)}.",
            evidence=evidence,
            change=str(overhead_change(session)),
        )
    return Finding(
        headline=_headline(alike, loads[len(alike) :]),
        bound_by=tuple(load.role for load in alike),
        evidence=evidence,
        advice=best_change(session, metrics, top, loads[1:]),
    )


def _headline(alike: Sequence[StageUtilization], others: Sequence[StageUtilization]) -> str:
    names = listing([ROLES[load.role].phrase for load in alike])
    shares = listing([percent(load.busy) for load in alike])
    if len(alike) > 1:
        return f"Bound by {names} alike: busy {shares} of the time, too close to rank."
    if not others:
        return f"Bound by {names}: busy {shares} of the time."
    rest = f"{ROLES[others[0].role].phrase} comes next with {percent(others[0].busy)}"
    return f"Bound by {names}: busy {shares} of the time; {rest}."


def _shares(loads: Sequence[StageUtilization]) -> str:
    return "Busy: " + ", ".join(f"{load.name} {percent(load.busy)}" for load in loads) + "."


def _queue_evidence(session: Session, top: StageUtilization) -> tuple[str, ...]:
    """What the queues around the busiest stage say; a bottleneck has a full one before it and an
    empty one after it."""
    names = [stage.name for stage in session.stages]
    place = names.index(top.name)
    after = names[place + 1] if place + 1 < len(names) else None
    found: list[str] = []
    for queue in session.queues:
        mean = occupancy(queue, session)
        if queue.feeds == top.name:
            found.append(_queue_line("before", mean, agrees=mean >= BUSY))
        elif queue.feeds == after:
            found.append(_queue_line("after", mean, agrees=mean < BUSY))
    return tuple(found)


def _queue_line(side: str, mean: float, *, agrees: bool) -> str:
    verdict = "as" if agrees else "not as"
    return (
        f"The queue {side} it was {percent(mean)} full on average, {verdict} {side} a bottleneck."
    )


def _core_evidence(session: Session, loads: Sequence[StageUtilization]) -> tuple[str, ...]:
    threads = sum(load.busy * load.workers for load in loads)
    cores = session.provenance.machine.usable_cores
    if session.setup.device != "cpu" or threads <= cores:
        return ()
    return (
        f"The stages kept {threads:.1f} threads busy on {counted(cores, 'core')}: a busy stage "
        "may have been waiting for a core.",
    )


def amplification_evidence(metrics: Metrics, what: str) -> tuple[str, ...]:
    """Return how much is decoded for each of what is wanted, where that is known."""
    if metrics.amplification is None:
        return ()
    return (f"Frames decoded per {what}: {metrics.amplification:.2f}.",)


def length_evidence(metrics: Metrics) -> tuple[str, ...]:
    """Return that there are few steps, where that is so."""
    if metrics.steps >= ENOUGH_STEPS:
        return ()
    return (f"Only {counted(metrics.steps, 'step')} after warm-up: a hint, not a measurement.",)
