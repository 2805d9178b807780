"""What took the time of steps whose parts follow each other: of a training, of an extraction?"""

from typing import Final

from headrace.profiling.findings.advice import advised, share_facts
from headrace.profiling.findings.bottleneck import amplification_evidence, length_evidence
from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.utilization import stage_loads
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import whole_percent as percent
from headrace.profiling.session import Session
from headrace.profiling.stage_records import ROLES, Role

_TRAINING_WORDS: Final[dict[Role, str]] = {
    "decode": "waiting for batches",
    "preprocess": ROLES["preprocess"].phrase,
    "transfer": ROLES["transfer"].phrase,
    "model": "forward, backward and optimizer",
}
_EXTRACTION_WORDS: Final = {
    "decode": "decoding",
    "prepare": "preprocessing",
    "transfer": "the transfer to the device",
    "model": "the model",
    "encode": "encoding pictures",
    "write": "writing files",
    "compare": "comparing proxies with their originals",
}


def training(session: Session) -> Finding | None:
    """Return what most of a training's time went into; None for a session of another kind."""
    metrics = Metrics.of(session)
    if session.kind != "retrain" or metrics.cost is None:
        return None
    roles = metrics.cost.roles
    whole = sum(roles.values())
    top = max(roles, key=lambda role: roles[role])
    share = roles[top] / whole if whole else 0.0
    parts = ", ".join(f"{load.name} {percent(load.busy)}" for load in stage_loads(session))
    return Finding(
        headline=f"Bound by {ROLES[top].phrase}: {_TRAINING_WORDS[top]} took {percent(share)} "
        "of a step.",
        bound_by=(top,),
        evidence=(f"Of the time of the loop: {parts}.", *length_evidence(metrics)),
        advice=advised("retrain", top, share_facts(session, metrics, share)),
    )


def extraction(session: Session) -> Finding | None:
    """Return what most of the workers' time went into; None for a session of another kind."""
    metrics = Metrics.of(session)
    if session.kind != "extract" or metrics.cost is None:
        return None
    costs = metrics.cost.stages
    whole = sum(costs.values())
    if not whole:
        return None
    top = max(costs, key=lambda name: costs[name])
    loads = stage_loads(session)
    parts = ", ".join(f"{name} {percent(cost / whole)}" for name, cost in costs.items())
    workers = max(load.workers for load in loads)
    who = f"{workers} workers were" if workers > 1 else "The worker was"
    busy = percent(min(1.0, sum(load.busy for load in loads)))
    share = costs[top] / whole
    return Finding(
        headline=f"Bound by {_EXTRACTION_WORDS.get(top, top)}: {percent(share)} of the workers' "
        "time.",
        bound_by=tuple(load.role for load in loads if load.name == top),
        evidence=(
            f"Of the work: {parts}.",
            f"{who} at work {busy} of the time.",
            *amplification_evidence(metrics, "frame used" if "model" in costs else "picture"),
        ),
        advice=advised("extract", top, share_facts(session, metrics, share)),
    )
