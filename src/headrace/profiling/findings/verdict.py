"""Verdict: all findings of a session, in reading order."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headrace.profiling.findings.advice import CLIPS, reads_pictures
from headrace.profiling.findings.bottleneck import (
    ENOUGH_STEPS,
    STALE,
    find_bottleneck,
    find_extraction_bound,
    find_overload,
    find_source_bound,
    find_training_bound,
)
from headrace.profiling.findings.data_stall import find_data_stall, find_loader_start
from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.inside_step import find_memory_growth
from headrace.profiling.findings.loop_simulation import QUIET, loop_seconds
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import counted
from headrace.profiling.number_format import whole_percent as percent
from headrace.profiling.session import Session

MIN_STEPS: Final = 10
"""Min measured steps for a verdict."""
_MIN_SECONDS: Final = 1.0
"""Min seconds of a loop of few steps for advice."""
_BUSY: Final = 0.2
"""Min CPU share of other programs for advice to repeat the run."""
_MIN_PART_SECONDS: Final = 0.05
"""Min seconds for a part of the start-up to be listed."""


def find(session: Session) -> tuple[Finding, ...]:
    """Return the findings, the verdict first; never empty. They are qualified on a busy machine."""
    return tuple(
        _qualify_loop(session, qualify(session.others_cpu_share, finding))
        for finding in _find_all(session)
    )


def _qualify_loop(session: Session, finding: Finding) -> Finding:
    """Return the finding; of few steps it is a hint, of a failed or short loop without advice.

    On a busy machine, predicted gains are upper bounds.
    """
    if session.loader is None:
        return finding
    steps = len(session.steps) - len(session.loader.first_steps)
    if MIN_STEPS <= steps < ENOUGH_STEPS and finding.bound_by != ("start-up",):
        first, rest = finding.headline[:1], finding.headline[1:]
        finding = replace(finding, headline=f"Hint: {first.lower()}{rest}")
        if session.outcome == "failed" or loop_seconds(session) < _MIN_SECONDS:
            return replace(finding, change=None, advice=None)
    advice = finding.advice
    if advice and advice.gain and is_busy(session.others_cpu_share) and not advice.is_least:
        return replace(finding, change=None, advice=replace(advice, is_most=True))
    return finding


def _find_all(session: Session) -> tuple[Finding, ...]:
    short = find_too_short(session)
    if short is not None:
        has_epochs = session.loader is not None and session.loader.epochs > 1
        start = find_loader_start(session) if has_epochs else None
        return (short,) if start is None else (start, short)
    if session.kind == "loader":
        start = find_loader_start(session)
        stalls = (*find_data_stall(session), *find_memory_growth(session))
        if start is None:
            return stalls
        return (start, *stalls) if start.bound_by else (*stalls, start)
    metrics = Metrics.of(session)
    overload = find_overload(session, metrics)
    bound = None
    if overload is None or not ("source" in overload.bound_by or overload.cause == STALE):
        bound = (
            find_training_bound(session, metrics)
            or find_extraction_bound(session, metrics)
            or find_source_bound(session)
            or find_bottleneck(session, metrics)
        )
    # A live source is endless, so its start-up does not matter.
    start_up = None if session.kind == "live" else _find_start_up(session, metrics)
    if start_up is not None and bound is not None and bound.bound_by:
        by = bound.headline.partition(":")[0].removeprefix("Bound ")
        start_up = replace(start_up, headline=f"{start_up.headline[:-1]}; after that, {by}.")
    findings = (start_up, overload, bound)
    return tuple(filter(None, findings)) or (
        Finding(headline="No time was measured, so the bottleneck is not known."),
    )


def find_too_short(session: Session) -> Finding | None:
    """Return a finding if there are too few measured steps for a verdict."""
    skipped = len(session.loader.first_steps) if session.loader else session.warmup_steps
    measured = max(0, len(session.steps) - skipped)
    if measured >= MIN_STEPS and session.stages:
        return None
    steps, needed = counted(measured, "step"), f"at least {MIN_STEPS} are needed"
    if session.kind == "loader":
        return Finding(
            headline="Too short to know whether the loop waits for data: "
            f"{steps} after the first of each epoch, {needed}.",
            change=None if session.outcome == "failed" else "Let it run for more steps.",
        )
    return Finding(
        headline=f"Too short to know what bound the run: {steps} after warm-up, {needed}.",
        change=_suggest_longer(session),
    )


def _suggest_longer(session: Session) -> str | None:
    if session.outcome == "failed":
        return None  # The message of the error has the fix.
    if session.outcome == "interrupted":
        return "Let it run longer before Ctrl-C."
    if session.kind == "retrain":
        return "Train for more --epochs, or on more videos."
    if session.kind == "live":
        return "Let it run longer."
    if session.kind == "extract":
        return "Extract from more, or longer, videos."
    longer = "Give more pictures" if reads_pictures(session) else "Run a longer video"
    frames = sum(session.steps.frames)
    batch_size = frames // (MIN_STEPS + max(1, session.warmup_steps))
    has_clips = any(stage.name == CLIPS for stage in session.stages)
    if 1 <= batch_size < session.setup.batch_size and not has_clips:
        return f"{longer}, or --batch-size {batch_size} for more steps."
    return f"{longer}."


def _find_start_up(session: Session, metrics: Metrics) -> Finding | None:
    """Return a finding if more than half of the time passed before the first step."""
    before = sum(part.seconds for part in session.startup)
    inside = metrics.startup_seconds
    total = before + session.wall_seconds
    if before + inside <= total / 2:
        return None
    parts = [
        f"{part.name} {part.seconds:.1f} s"
        for part in session.startup
        if part.seconds >= _MIN_PART_SECONDS
    ]
    evidence = [f"Before the run: {', '.join(parts)}."] if parts else []
    if session.warmup_steps:
        steps = counted(session.warmup_steps, "step")
        evidence.append(f"In the run: {inside:.1f} s, including the warm-up of {steps}.")
    more = "more pictures" if reads_pictures(session) else "a longer video"
    evidence.append(f"Start-up is paid once per run: judge the speed by {more}.")
    return Finding(
        headline=f"Bound by start-up: {before + inside:.1f} s of {total:.1f} s "
        f"({percent((before + inside) / total)}) passed before the first measured step.",
        bound_by=("start-up",),
        evidence=tuple(evidence),
    )


def advised(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings of a loop with the changes to try, at most two.

    The first change is for the largest part of the time, the second has the largest expected gain.
    If start-up takes most of the time, faster steps hardly speed up the loop, so it is the only
    one.
    """
    candidates = [finding for finding in findings if finding.change]
    if not candidates:
        return ()
    first, *others = candidates
    if first.bound_by == ("start-up",):
        return (first,)
    if _gain(first):
        return (max(candidates, key=_gain),)
    best = max(others, key=_gain, default=first)
    return (first, best) if _gain(best) else (first,)


def _gain(finding: Finding) -> float:
    return (finding.advice.gain or 0.0) if finding.advice else 0.0


def is_busy(others_cpu_share: float | None) -> bool:
    """Return whether other programs used more than 5 % of the CPU time."""
    return others_cpu_share is not None and others_cpu_share > QUIET


def busy_banner(others_cpu_share: float | None) -> str | None:
    """Return the warning above the report of a busy machine; None: the machine was quiet."""
    if others_cpu_share is None or not is_busy(others_cpu_share):
        return None
    used = f"Other programs used {percent(others_cpu_share)} of the CPU time"
    if others_cpu_share < _BUSY:
        return f"{used}: the figures of a quiet machine may differ by as much."
    return (
        f"{used}: these figures are not those of a quiet machine. Repeat the run when the machine "
        "is quiet, before you act on them."
    )


def qualify(others_cpu_share: float | None, finding: Finding) -> Finding:
    """Return the finding; on a busy machine, its headline states how far it can be trusted.

    Source-bound findings are returned unchanged, because they also hold on a busy machine.
    """
    if not is_busy(others_cpu_share) or not finding.bound_by or "source" in finding.bound_by:
        return finding
    verdict, colon, figures = finding.headline.partition(": ")
    how = "as far as can be seen on a busy machine"
    if finding.is_corrected:
        how = "without waits for a core"
    return replace(finding, headline=f"{verdict}, {how}{colon}{figures}")
