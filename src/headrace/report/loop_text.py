"""Verdict on a profiled training loop, as a few lines of text."""

from collections.abc import Iterator, Sequence
from typing import Final

from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.verdict import advised, busy_banner, find
from headrace.profiling.number_format import counted, seconds
from headrace.profiling.session import Session
from headrace.report.text import printable, title, wrap

_WIDTH: Final = 80
"""Columns."""


def render_verdict(session: Session) -> str:
    """Return the findings, and the change with the largest expected gain.

    The verdict comes first, or second after a warning about a busy machine. At most 80 columns; no
    newline at the end.
    """
    first, *others = find(session)
    steps = counted(len(session.steps), "step")
    outcome = "" if session.outcome == "complete" else f", {session.outcome}"
    banner = busy_banner(session.others_cpu_share)
    lines = _wrap(f"headrace: ! {banner}") if banner else []
    lines += _wrap(f"headrace: {first.headline}")
    lines += _wrap(f"  {title(session)}: {steps} in {seconds(session.wall_seconds)}{outcome}")
    lines += _evidence(first)
    for finding in others:
        lines += [*_wrap(f"  {finding.headline}"), *_evidence(finding)]
    lines += _suggest_changes([first, *others])
    return "\n".join(map(printable, lines))


def _wrap(text: str) -> list[str]:
    """Return lines, all but the first indented."""
    return wrap(text, _WIDTH, subsequent_indent="  " if text.startswith("headrace") else "    ")


def _evidence(finding: Finding) -> Iterator[str]:
    for sentence in finding.evidence:
        yield from wrap(sentence, _WIDTH, initial_indent="  - ", subsequent_indent="    ")


def _suggest_changes(findings: Sequence[Finding]) -> Iterator[str]:
    for label, finding in zip(("Try next", "Then"), advised(findings), strict=False):
        yield from _wrap(f"  {label}: {finding.change}")
