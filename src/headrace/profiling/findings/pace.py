"""Which stage set the pace once frames flowed, and what would change it most?"""

from collections.abc import Sequence
from typing import Final

from headrace.profiling.findings.changes import best_change
from headrace.profiling.findings.finding import Finding, counted, listing, percent
from headrace.profiling.findings.loads import StageLoad, occupancy, stage_loads
from headrace.profiling.findings.overhead import overhead
from headrace.profiling.metrics import Metrics
from headrace.profiling.session import Session
from headrace.profiling.stages import ROLES

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
        *_amplification_evidence(metrics),
        *_length_evidence(metrics),
    )
    if top.busy < BUSY:
        lost = overhead(session, evidence)
        return lost or Finding(
            headline="No stage was busy half of the time: the busiest, "
            f"{ROLES[top.role].phrase}, {percent(top.busy)}.",
            evidence=evidence,
            change=f"--batch-size {2 * session.setup.batch_size}: fewer hand-overs between the "
            "stages; what it brings is not known before it is tried.",
        )
    change = best_change(session, metrics, top, loads[1:])
    return Finding(
        headline=_headline(alike, loads[len(alike) :]),
        bound_by=tuple(load.role for load in alike),
        evidence=evidence,
        change=str(change),
        advice=change,
    )


def _headline(alike: Sequence[StageLoad], others: Sequence[StageLoad]) -> str:
    names = listing([ROLES[load.role].phrase for load in alike])
    shares = listing([percent(load.busy) for load in alike])
    if len(alike) > 1:
        return f"Bound by {names} alike: busy {shares} of the time, too close to rank."
    if not others:
        return f"Bound by {names}: busy {shares} of the time."
    rest = f"{ROLES[others[0].role].phrase} comes next with {percent(others[0].busy)}"
    return f"Bound by {names}: busy {shares} of the time; {rest}."


def _shares(loads: Sequence[StageLoad]) -> str:
    return "Busy: " + ", ".join(f"{load.name} {percent(load.busy)}" for load in loads) + "."


def _queue_evidence(session: Session, top: StageLoad) -> tuple[str, ...]:
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


def _core_evidence(session: Session, loads: Sequence[StageLoad]) -> tuple[str, ...]:
    threads = sum(load.busy * load.workers for load in loads)
    cores = session.provenance.machine.usable_cores
    if session.setup.device != "cpu" or threads <= cores:
        return ()
    return (
        f"The stages kept {threads:.1f} threads busy on {counted(cores, 'core')}: a busy stage "
        "may have been waiting for a core.",
    )


def _amplification_evidence(metrics: Metrics) -> tuple[str, ...]:
    if metrics.amplification is None:
        return ()
    return (f"Frames decoded per frame delivered: {metrics.amplification:.2f}.",)


def _length_evidence(metrics: Metrics) -> tuple[str, ...]:
    if metrics.steps >= ENOUGH_STEPS:
        return ()
    return (f"Only {counted(metrics.steps, 'step')} after warm-up: a hint, not a measurement.",)
