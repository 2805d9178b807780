"""What a training loop came to, in the few lines that stand at its end."""

from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.verdict import find
from headrace.profiling.session import Session
from headrace.report.numbers import counted, seconds
from headrace.report.text import printable, title

_WIDTH: Final = 80


def render_verdict(session: Session) -> str:
    """Return what was found, and the one change with the largest predicted gain.

    At most 80 columns wide; no newline at the end.
    """
    findings = find(session)
    steps = counted(len(session.steps), "step")
    ended = "" if session.outcome == "complete" else f", {session.outcome}"
    lines = [f"headrace: {title(session)}: {steps} in {seconds(session.wall_seconds)}{ended}"]
    for finding in findings:
        lines += wrap(finding.headline, _WIDTH, initial_indent="  ", subsequent_indent="  ")
        for sentence in finding.evidence:
            lines += wrap(sentence, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    lines += _try_next(findings)
    return "\n".join(map(printable, lines))


def _try_next(findings: tuple[Finding, ...]) -> Iterator[str]:
    """The change with the largest predicted gain; where none is known, the first one.

    Gains of the steps are none of the whole where most of that was spent before them.
    """
    told = [finding for finding in findings if finding.change]
    told = [finding for finding in told if finding.bound_by == ("start-up",)] or told
    of_bounds = [finding for finding in told if finding.bound_by or finding.advice]
    if told:
        best = max(of_bounds or told, key=_gain)
        yield from wrap(
            f"Try next: {best.change}", _WIDTH, initial_indent="  ", subsequent_indent="    "
        )


def _gain(finding: Finding) -> float:
    return (finding.advice.gain or 0.0) if finding.advice else 0.0
