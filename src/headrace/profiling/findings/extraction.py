"""What took the time of workers whose parts of the work follow each other?"""

from typing import Final

from headrace.profiling.findings.finding import Change, Finding, percent
from headrace.profiling.findings.loads import stage_loads
from headrace.profiling.metrics import Metrics
from headrace.profiling.session import Session

_WORDS: Final = {
    "decode": "decoding",
    "prepare": "preprocessing",
    "transfer": "the transfer to the device",
    "model": "the model",
    "encode": "encoding pictures",
    "write": "writing files",
}
_MODEL: Final = "model"
"""An option of those who extract features, and not pictures."""
_FEATURES: Final = {
    "decode": "Fewer frames, or videos of fewer pixels: little is decoded in vain",
    "prepare": "--prep-level simple, which changes the features",
    "transfer": "Videos of fewer pixels",
    "model": "A model with less arithmetic, or --device cuda where there is a GPU",
    "write": "A faster disk for -o, or --dtype float16",
}
"""What may be changed where features are extracted."""
_WASTEFUL: Final = 4.0
"""Frames decoded per picture from which another choice of frames is worth a word."""


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
    share = costs[top] / whole
    loads = stage_loads(session)
    [role] = [load.role for load in loads if load.name == top]
    parts = ", ".join(f"{name} {percent(cost / whole)}" for name, cost in costs.items())
    workers = max(load.workers for load in loads)
    busy = sum(load.busy for load in loads)
    evidence = [
        f"Of the work: {parts}.",
        f"{workers} workers were at work {percent(min(1.0, busy))} of the time."
        if workers > 1
        else f"The worker was at work {percent(min(1.0, busy))} of the time.",
    ]
    if metrics.amplification is not None:
        what = "frame used" if _MODEL in session.provenance.configuration else "picture"
        evidence.append(f"Frames decoded per {what}: {metrics.amplification:.2f}.")
    change = _change(session, metrics, top, share, workers)
    return Finding(
        headline=f"Bound by {_WORDS.get(top, top)}: {percent(share)} of the workers' time.",
        bound_by=(role,),
        evidence=tuple(evidence),
        change=str(change),
        advice=change,
    )


def _change(session: Session, metrics: Metrics, top: str, share: float, workers: int) -> Change:
    most = 1 / (1 - share) if share < 1 else None
    options, cores = session.provenance.configuration, session.provenance.machine.usable_cores
    if options.get("workers") is not None and workers < cores:
        return Change(
            words=f"--workers {cores}: this process may use {cores} cores",
            gain=cores / workers,
            rests_on=f"{workers} of them had a worker",
        )
    if top == "encode" and options.get("format") != "jpg":
        return Change(words="--format jpg: quicker to encode, and loses a little", most=most)
    if top == "decode" and (metrics.amplification or 0) >= _WASTEFUL:
        return Change(
            words="--keyframes, where any frame near those will do: only what is written is "
            "decoded",
            most=most,
        )
    if _MODEL in options:
        return Change(words=_FEATURES[top], most=most)
    if top == "write":
        return Change(words="A faster disk for -o, or --format with smaller files", most=most)
    if top == "decode":
        return Change(
            words="Fewer frames, or videos of fewer pixels: little is decoded in vain", most=most
        )
    return Change(words="A smaller --size, or fewer frames", most=most)
