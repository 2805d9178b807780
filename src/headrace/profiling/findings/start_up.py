"""Did starting take longer than the work?"""

from typing import Final

from headrace.profiling.findings.finding import Finding, counted, percent
from headrace.profiling.metrics import Metrics
from headrace.profiling.session import Session

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
