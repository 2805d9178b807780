"""Bottleneck of sessions with sequential parts (trainings, extractions): the largest part."""

from typing import Final

from headrace.profiling.findings.advice import advised, share_facts
from headrace.profiling.findings.bottleneck import amplification_evidence, length_evidence
from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.utilization import stage_loads
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import whole_percent as percent
from headrace.profiling.session import Session
from headrace.profiling.stage_records import ROLES, Role

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
    "encode": "encoding pictures",
    "write": "writing files",
    "compare": "comparing proxies with their originals",
}


def find_training_bound(session: Session) -> Finding | None:
    """Return the finding on the largest part of a training; None for other kinds of session."""
    metrics = Metrics.of(session)
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
        evidence=(f"Shares of the loop's time: {parts}.", *length_evidence(metrics)),
        advice=advised("retrain", top, share_facts(session, metrics, share)),
    )


def find_extraction_bound(session: Session) -> Finding | None:
    """Return the finding on the largest part of an extraction; None for other kinds of session."""
    metrics = Metrics.of(session)
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
            *amplification_evidence(metrics, "frame used" if "model" in costs else "picture"),
        ),
        advice=advised("extract", top, share_facts(session, metrics, share)),
    )
