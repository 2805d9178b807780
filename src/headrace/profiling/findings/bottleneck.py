"""Bottleneck of a run: overload, its source, a stage, Python overhead, or its largest part."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headrace.profiling.findings.advice import (
    WORTHWHILE,
    advised,
    best_change,
    overhead_change,
    share_facts,
)
from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.utilization import (
    StageUtilization,
    is_corrected,
    occupancy,
    outage_seconds,
    overload_drops,
    pacing_loads,
    stage_loads,
)
from headrace.profiling.metrics import Metrics, latency_start
from headrace.profiling.number_format import counted, listing
from headrace.profiling.number_format import whole_percent as percent
from headrace.profiling.run_records import ROLES, Role
from headrace.profiling.session import Session

_MAX_GROWTH_MS: Final = 1_000.0
"""Max growth of latency, in milliseconds, of a session that keeps up."""
_PARTS: Final = 10
"""Number of parts of a session; growth is measured from the first to the last part."""
STALE: Final = "stale"
"""Cause of drops by --max-staleness."""
_MAX_DROPS: Final = 0.05
"""Max share of dropped frames of a session that keeps up; a reconnection may drop some."""


def find_overload(session: Session, metrics: Metrics) -> Finding | None:
    """Return the finding on overload; None at full speed."""
    latency = metrics.latency
    if session.items is None or latency is None:
        return None
    drops, arrived = overload_drops(session), max(1, session.items.arrived)
    share, all_dropped = sum(drops.values()) / arrived, session.items.dropped
    evidence = tuple(
        f"{counted(frames, 'frame')}: {cause} at {stage}."
        for (stage, cause), frames in sorted(drops.items(), key=lambda drop: -drop[1])
    )
    if share > _MAX_DROPS:
        dropped = f"{percent(all_dropped / arrived)} were dropped"
        if all_dropped != sum(drops.values()):
            dropped += f", {percent(share)} for this reason"
        evidence = (*evidence, *_policy_evidence(session, drops))
        bursts = _find_bursts(session, drops, dropped, evidence)
        if bursts is None and _are_mostly_stale(drops):
            return Finding(
                headline=f"Frames were older than --max-staleness: {dropped}; latency of the "
                f"others {latency.ms.p50:.0f} ms from {latency_start(session)} (median).",
                cause=STALE,
                evidence=evidence,
                change="A longer --max-staleness, if these frames are needed; or a shorter way: a "
                "smaller model, --no-video, --threads 1.",
            )
        return bursts or Finding(
            headline=f"Frames came faster than they were processed: {dropped}.", evidence=evidence
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
        f"{latency.ms.p50:.0f} ms from {latency_start(session)} (median of "
        f"{counted(latency.ms.count, 'step')}).",
        bound_by=("source",),
        evidence=evidence,
    )


def _are_mostly_stale(drops: Mapping[tuple[str, str], int]) -> bool:
    stale = sum(frames for (_, cause), frames in drops.items() if cause == STALE)
    return 2 * stale > sum(drops.values())


def _policy_evidence(session: Session, drops: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """Yield the options that dropped the frames."""
    options = session.provenance.configuration
    if options.get("max_staleness") is not None and any(cause == STALE for _, cause in drops):
        yield f"--max-staleness {options['max_staleness']} drops frames that are older: stale."
    if options.get("overload") == "keep-last" and any(cause != STALE for _, cause in drops):
        yield "--overload keep-last drops by design: the newest frame is kept."


def _find_bursts(
    session: Session, drops: Mapping[tuple[str, str], int], dropped: str, evidence: tuple[str, ...]
) -> Finding | None:
    """Return the finding on drops of a run that waited for its source; None: it did not wait.

    A source sends several frames at once when it joins, resumes or reconnects.

    Args:
        session: A live session.
        drops: Frames dropped for overload: see `overload_drops`.
        dropped: Share of the frames that were dropped, as text.
        evidence: Sentences on the drops.
    """
    waited = find_source_bound(session)
    if waited is None:
        return None
    kinds = Counter(event.kind for event in session.events)
    stalls, reconnects = kinds["stalled"], kinds["reconnected"]
    gaps = (
        f"Sources: {counted(stalls, 'stall')}, {counted(reconnects, 'reconnect')}; after each, the "
        "frames of the gap may arrive at once."
    )
    what = "Frames came in bursts"
    change = "--queue 8, if these frames are needed: waiting frames add latency."
    if _are_mostly_stale(drops):
        what = "Frames were older than --max-staleness"
        change = "A longer --max-staleness, if these frames are needed."
    return Finding(
        headline=f"{what}: {dropped}, although on average the run was fast enough.",
        bound_by=waited.bound_by,
        evidence=(
            *evidence,
            *([gaps] if stalls or reconnects else []),
            *waited.evidence,
        ),
        change=change,
    )


def _measure_growth_ms(session: Session) -> float:
    """Return the mean latency of the last tenth of the steps minus that of the first tenth."""
    ages = [
        step.ended_ms - step.arrived_ms
        for step in session.steps.rows()
        if step.arrived_ms is not None
    ][session.warmup_steps :]
    size = len(ages) // _PARTS
    return (sum(ages[-size:]) - sum(ages[:size])) / size if size else 0.0


ALIKE: Final = 0.9
"""Min busy time of a stage, as a share of the busiest stage's, for a tie."""
BUSY: Final = 0.5
"""Min busy share of a bottleneck."""
ENOUGH_STEPS: Final = 90
"""Min measured steps for a verdict and for a p95; with fewer steps, the verdict is a hint."""
_OVERHEAD: Final = 0.3
"""Min share of idle time, with input and room, for a finding on Python overhead."""
WAITING: Final = 0.5
"""Min starved share of the first stage for a source-bound run."""


def find_source_bound(session: Session) -> Finding | None:
    """Return a finding if the first stage waited for frames more than half of the time."""
    loads = pacing_loads(session)
    if not loads or loads[0].starved < WAITING or max(load.busy for load in loads) > WAITING:
        return None
    busiest = max(loads, key=lambda load: load.busy)
    return Finding(
        headline=f"Bound by the source: {loads[0].name} waited for frames "
        f"{percent(loads[0].starved)} of the time.",
        bound_by=("source",),
        evidence=(
            f"The busiest stage, {busiest.name}, was busy {percent(busiest.busy)} of the time: the "
            f"pipeline can process {1 / max(busiest.busy, 0.001):.2g} times as many frames.",
        ),
    )


def find_bottleneck(session: Session, metrics: Metrics) -> Finding | None:
    """Return the finding on the bottleneck; None without steps."""
    loads = sorted(pacing_loads(session), key=lambda load: load.busy, reverse=True)
    if not loads:
        return None
    top = loads[0]
    alike = [load for load in loads if load.busy >= ALIKE * top.busy]
    evidence = (
        "Busy: "
        + ", ".join(f"{load.name} {percent(load.busy)}" for load in stage_loads(session))
        + ".",
        *_queue_evidence(session, top),
        *_core_evidence(session, stage_loads(session)),
        *_outage_evidence(session),
        *_amplification_evidence(metrics, "frame delivered"),
        *_alternatives_evidence(session),
        *_length_evidence(metrics),
    )
    if top.busy < BUSY:
        return _find_overhead(session, evidence) or Finding(
            headline=f"No stage was busy half of the time; {ROLES[top.role].phrase} was the "
            f"busiest, {percent(top.busy)}.",
            evidence=evidence,
            change=str(overhead_change(session)),
        )
    return Finding(
        headline=_headline(alike, loads[len(alike) :]),
        bound_by=tuple(load.role for load in alike),
        evidence=evidence,
        is_corrected=is_corrected(session),
        advice=best_change(session, metrics, top, loads[1:]),
    )


def _find_overhead(session: Session, evidence: tuple[str, ...]) -> Finding | None:
    """Return a finding if a stage had input and room, but was idle for much of the time.

    Between steps, a thread waits for the GIL and moves batches between queues; larger batches
    reduce this overhead.

    Args:
        session: A session in which no stage was busy half of the time.
        evidence: Sentences on the utilization of its stages.
    """
    idle = max(load.idle for load in pacing_loads(session))
    if idle < _OVERHEAD:
        return None
    return Finding(
        headline=f"Bound by Python overhead: {percent(idle)} of the time a stage had input and "
        "room, but did not work.",
        bound_by=("Python overhead",),
        evidence=evidence,
        advice=overhead_change(session, idle),
    )


def _headline(alike: Sequence[StageUtilization], others: Sequence[StageUtilization]) -> str:
    names = listing([ROLES[load.role].phrase for load in alike])
    shares = listing([percent(load.busy) for load in alike])
    if len(alike) > 1:
        return f"Bound by {names}: busy {shares} of the time, too close to rank."
    if not others:
        return f"Bound by {names}: busy {shares} of the time."
    rest = f"{ROLES[others[0].role].phrase} comes next with {percent(others[0].busy)}"
    return f"Bound by {names}: busy {shares} of the time; {rest}."


def _queue_evidence(session: Session, top: StageUtilization) -> tuple[str, ...]:
    """Return sentences on the queues before and after the busiest stage.

    A bottleneck has a full queue before it, and an empty queue after it.
    """
    names = [stage.name for stage in session.stages]
    position = names.index(top.name)
    after = names[position + 1] if position + 1 < len(names) else None
    lines: list[str] = []
    for queue in session.queues:
        mean = occupancy(queue, session)
        if queue.feeds == top.name:
            lines.append(_queue_line("before", mean, agrees=mean >= BUSY))
        elif queue.feeds == after:
            lines.append(_queue_line("after", mean, agrees=mean < BUSY))
    return tuple(lines)


def _queue_line(side: str, mean: float, *, agrees: bool) -> str:
    verdict = "as expected" if agrees else "unlike"
    return (
        f"The queue {side} it was {percent(mean)} full on average, {verdict} {side} a bottleneck."
    )


def _core_evidence(session: Session, loads: Sequence[StageUtilization]) -> Iterator[str]:
    """Yield the subtracted waits for a core, or a warning if threads may have waited for one."""
    threads = sum(load.busy * load.workers for load in loads)
    cores = session.provenance.machine.usable_cores
    if is_corrected(session):
        waits = ", ".join(f"{load.name} {percent(load.core_wait)}" for load in stage_loads(session))
        yield f"Not included: waits for a core, as a share of the time: {waits}."
    elif session.setup.device == "cpu" and threads > cores:
        yield (
            f"The stages kept {threads:.1f} threads busy on {counted(cores, 'core')}: a busy stage "
            "may have been waiting for a core."
        )


def _outage_evidence(session: Session) -> Iterator[str]:
    """Yield the time of outages, if there were any."""
    if seconds := outage_seconds(session):
        yield f"Not included: {seconds:.0f} s in which no source was connected."


def _amplification_evidence(metrics: Metrics, item: str) -> tuple[str, ...]:
    """Return a sentence with the frames decoded per `item`; empty: unknown."""
    if metrics.amplification is None:
        return ()
    return (f"Frames decoded per {item}: {metrics.amplification:.2f}.",)


def _alternatives_evidence(session: Session) -> Iterator[str]:
    """Yield the settings that were measured after the run and are no faster, if any."""
    slower = [
        alternative.option
        for alternative in session.alternatives
        if alternative.baseline_ms_per_frame / alternative.ms_per_frame < WORTHWHILE
    ]
    if slower:
        yield f"Measured after the run, and no faster: {listing(slower)}."


def _length_evidence(metrics: Metrics) -> tuple[str, ...]:
    """Return a warning if there are few steps."""
    if metrics.steps >= ENOUGH_STEPS:
        return ()
    return (f"Only {counted(metrics.steps, 'step')} after warm-up: a hint, not a measurement.",)


_TRAINING_PARTS: Final[dict[Role, str]] = {
    "decode": "waiting for batches",
    "preprocess": ROLES["preprocess"].phrase,
    "transfer": ROLES["transfer"].phrase,
    "model": "forward, backward and optimizer",
}
_EXTRACTION_PARTS: Final = {
    "decode": "decoding",
    "prepare": "preprocessing",
    "transfer": "the transfer to the device",
    "model": "the model",
    "encode": "encoding",
    "write": "writing files",
    "compare": "comparing proxies with their originals",
}


def find_training_bound(session: Session, metrics: Metrics) -> Finding | None:
    """Return the finding on the largest part of a training; None for other kinds of session."""
    if session.kind != "retrain" or metrics.cost is None:
        return None
    roles = metrics.cost.roles
    total = sum(roles.values())
    top = max(roles, key=lambda role: roles[role])
    share = roles[top] / total if total else 0.0
    parts = ", ".join(f"{load.name} {percent(load.busy)}" for load in stage_loads(session))
    return Finding(
        headline=f"Bound by {ROLES[top].phrase}: {_TRAINING_PARTS[top]} took {percent(share)} "
        "of a step.",
        bound_by=(top,),
        evidence=(f"Shares of the loop's time: {parts}.", *_length_evidence(metrics)),
        advice=advised("retrain", top, share_facts(session, metrics, share)),
    )


def find_extraction_bound(session: Session, metrics: Metrics) -> Finding | None:
    """Return the finding on the largest part of an extraction; None for other kinds of session."""
    if session.kind != "extract" or metrics.cost is None:
        return None
    costs = metrics.cost.stages
    total = sum(costs.values())
    if not total:
        return None
    top = max(costs, key=lambda name: costs[name])
    loads = stage_loads(session)
    parts = ", ".join(f"{name} {percent(cost / total)}" for name, cost in costs.items())
    workers = max(load.workers for load in loads)
    subject = f"{workers} workers were" if workers > 1 else "The worker was"
    busy = percent(min(1.0, sum(load.busy for load in loads)))
    share = costs[top] / total
    return Finding(
        headline=f"Bound by {_EXTRACTION_PARTS.get(top, top)}: {percent(share)} of the workers' "
        "time.",
        bound_by=tuple(load.role for load in loads if load.name == top),
        evidence=(
            f"Shares of the work: {parts}.",
            f"{subject} busy {busy} of the time.",
            *_amplification_evidence(metrics, "frame used"),
            *_length_evidence(metrics),
        ),
        advice=advised("extract", top, share_facts(session, metrics, share)),
    )
