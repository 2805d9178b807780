"""What took the time of a training step, whose parts follow each other?"""

from typing import Final

from headrace.profiling.findings.finding import Change, Finding, counted, percent
from headrace.profiling.findings.loads import stage_loads
from headrace.profiling.metrics import Metrics
from headrace.profiling.session import Session
from headrace.profiling.stages import ROLES, Role

ENOUGH_STEPS: Final = 90
"""Fewer measured steps are a hint only."""
_WORDS: Final[dict[Role, str]] = {
    "decode": "waiting for batches",
    "preprocess": ROLES["preprocess"].phrase,
    "transfer": ROLES["transfer"].phrase,
    "model": "forward, backward and optimizer",
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
    evidence = [f"Of the time of the loop: {parts}."]
    if metrics.steps < ENOUGH_STEPS:
        evidence.append(
            f"Only {counted(metrics.steps, 'step')} after warm-up: a hint, not a measurement."
        )
    return Finding(
        headline=f"Bound by {ROLES[top].phrase}: {_WORDS[top]} took {percent(share)} of a step.",
        bound_by=(top,),
        evidence=tuple(evidence),
        change=str(_change(session, top, share)),
    )


def _change(session: Session, top: Role, share: float) -> Change:
    """Return what would shorten the part that takes most; no more than all of it can be won."""
    best = 1 / (1 - share) if share < 1 else float("inf")
    rests_on = f"less than {best:.2g} times as fast, the bound of it taking no time at all"
    options, gpus = session.provenance.configuration, session.provenance.machine.gpus
    if top in ("decode", "preprocess"):
        words = "--size with fewer pixels: frames are decoded to it, and less is left to resize"
        if options.get("size") is not None:
            words = "A smaller --size still, or --stride: fewer frames that are much alike"
        return Change(words=words, rests_on=rests_on)
    if top == "transfer":
        batch_size = 2 * session.setup.batch_size
        return Change(words=f"--batch-size {batch_size}: fewer, larger copies", rests_on=rests_on)
    if session.setup.device == "cpu" and gpus:
        return Change(words=f"--device cuda: this machine has a {gpus[0].name}")
    if options.get("checkpoint_gradients"):
        return Change(words="No --checkpoint-gradients, if the memory allows it: no second forward")
    if options.get("train_from") is not None:
        return Change(words="A later --train-from: fewer layers have a backward")
    if session.setup.smaller_model:
        return Change(words=f"--model-name {session.setup.smaller_model}")
    return Change(words="--stride: fewer frames that are much alike")
