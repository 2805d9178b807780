"""Is there enough to judge by?"""

from typing import Final

from headrace.profiling.findings.finding import Finding, counted
from headrace.profiling.session import Session

FEWEST_STEPS: Final = 10
"""Fewer measured steps say nothing."""
_CLIPS: Final = "clips"
"""The stage of a run whose steps are clips, whatever its batch size."""


def too_short(session: Session) -> Finding | None:
    """Return a finding where there are too few steps to say anything of the pace."""
    skipped = len(session.loader.first_steps) if session.loader else session.warmup_steps
    measured = max(0, len(session.steps) - skipped)
    if measured >= FEWEST_STEPS and session.stages:
        return None
    if session.kind == "loader":
        return _of_loop(measured)
    return Finding(
        headline="Too short to tell what bound the run: "
        f"{counted(measured, 'step')} after warm-up, {FEWEST_STEPS} is the least.",
        change=_change(session),
    )


def _of_loop(measured: int) -> Finding:
    return Finding(
        headline="Too short to tell whether the loop waits for data: "
        f"{counted(measured, 'step')} after the first of each epoch, {FEWEST_STEPS} is the least.",
        change="Let it run for more steps.",
    )


def _change(session: Session) -> str | None:
    if session.outcome == "failed":
        return None  # The error says what to do.
    if session.outcome == "interrupted":
        return "Let it run longer before Ctrl-C."
    if session.kind == "retrain":
        return "Train for more --epochs, or on more videos."
    if session.kind == "live":
        return "Let it run longer."
    if session.kind == "extract":
        return "Extract from more, or longer, videos."
    frames = sum(session.steps.frames)
    batch_size = frames // (FEWEST_STEPS + max(1, session.warmup_steps))
    goes_by_clips = any(stage.name == _CLIPS for stage in session.stages)
    if 1 <= batch_size < session.setup.batch_size and not goes_by_clips:
        return f"Run a longer video, or --batch-size {batch_size} for more steps."
    return "Run a longer video."
