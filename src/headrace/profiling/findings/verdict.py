"""All questions put to a session, in the order the answers are read."""

from dataclasses import replace
from typing import Final

from headrace.profiling.findings.bottleneck import pace, source
from headrace.profiling.findings.data_stall import loader_start, waiting
from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.overload import keeping_up
from headrace.profiling.findings.time_shares import extraction, training
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import counted
from headrace.profiling.number_format import whole_percent as percent
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


_FELT: Final = 0.05
"""Seconds below which a part is not worth a word."""


def start_up(session: Session) -> Finding | None:
    """Return a finding where more than half of all the time passed before the first step."""
    before = sum(part.seconds for part in session.startup)
    inside = Metrics.of(session).startup_seconds
    whole = before + session.wall_seconds
    if before + inside <= whole / 2:
        return None
    parts = [
        f"{part.name} {part.seconds:.1f} s" for part in session.startup if part.seconds >= _FELT
    ]
    evidence = [f"Before the run: {', '.join(parts)}."] if parts else []
    if session.warmup_steps:
        steps = counted(session.warmup_steps, "step")
        evidence.append(f"In the run: {inside:.1f} s, the warm-up of {steps} among it.")
    return Finding(
        headline=f"Bound by start-up: {before + inside:.1f} s of {whole:.1f} s "
        f"({percent((before + inside) / whole)}) passed before the first measured step.",
        bound_by=("start-up",),
        evidence=tuple(evidence),
        change="Judge the speed by a longer video: start-up is paid once per run.",
    )


QUIET: Final = 0.05
"""Share of the processor time used by others up to which a machine counts as quiet."""
_AS_FAR_AS: Final = ", as far as a busy machine lets one tell"


def is_busy(others_cpu_share: float | None) -> bool:
    """Return whether others used more than 5 % of the processor time that was used."""
    return others_cpu_share is not None and others_cpu_share > QUIET


def busy_banner(others_cpu_share: float | None) -> str | None:
    """Return what stands above a report of a busy machine; None where it was quiet."""
    if others_cpu_share is None or not is_busy(others_cpu_share):
        return None
    return (
        f"Other programs used {percent(others_cpu_share)} of the processor time meanwhile: these "
        "figures are not those of this machine at rest. Run it again when the machine is quiet, "
        "before you act on them."
    )


def worded_by(others_cpu_share: float | None, finding: Finding) -> Finding:
    """Return a finding with its verdict worded by what others took.

    That frames come no faster than they are worked on holds on a busy machine, too.
    """
    if not is_busy(others_cpu_share) or not finding.bound_by or "source" in finding.bound_by:
        return finding
    verdict, colon, figures = finding.headline.partition(": ")
    return replace(finding, headline=f"{verdict}{_AS_FAR_AS}{colon}{figures}")


def find(session: Session) -> tuple[Finding, ...]:
    """The verdict first, worded by what other programs took, then what else shows; never empty."""
    return tuple(worded_by(session.others_cpu_share, finding) for finding in _found(session))


def _found(session: Session) -> tuple[Finding, ...]:
    short = too_short(session)
    if short is not None:
        is_often = session.loader is not None and session.loader.epochs > 1
        begun = loader_start(session) if is_often else None
        return (short,) if begun is None else (begun, short)
    if session.kind == "loader":
        start = loader_start(session)
        starts = () if start is None else (start,)
        is_bound = start is not None and bool(start.bound_by)
        parts = waiting(session)
        return (*starts, *parts) if is_bound else (*parts, *starts)
    kept_up = keeping_up(session)
    is_enough = kept_up is not None and "source" in kept_up.bound_by
    in_turn = training(session) or extraction(session)
    pace_set_by = None if is_enough else in_turn or source(session) or pace(session)
    found = (start_up(session), kept_up, pace_set_by)
    known = tuple(finding for finding in found if finding is not None)
    return known or (Finding(headline="No time was measured: what bound the run is not known."),)
