"""What a training loop came to, in the few lines that stand at its end."""

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.verdict import busy_banner, find
from headrace.profiling.number_format import counted, seconds
from headrace.profiling.session import Session
from headrace.report.text import printable, title

_WIDTH: Final = 80


def render_verdict(session: Session) -> str:
    """Return what was found, and the one change with the largest predicted gain.

    The verdict is the first line; that the machine was busy stands above it. At most 80 columns
    wide; no newline at the end.
    """
    first, *others = find(session)
    steps = counted(len(session.steps), "step")
    ended = "" if session.outcome == "complete" else f", {session.outcome}"
    banner = busy_banner(session.others_cpu_share)
    lines = _wrapped(f"headrace: ! {banner}") if banner else []
    lines += _wrapped(f"headrace: {first.headline}")
    lines += _wrapped(f"  {title(session)}: {steps} in {seconds(session.wall_seconds)}{ended}")
    lines += _evidence(first)
    for finding in others:
        lines += [*_wrapped(f"  {finding.headline}"), *_evidence(finding)]
    lines += _try_next([first, *others])
    return "\n".join(map(printable, lines))


def _wrapped(text: str) -> list[str]:
    """Lines of which all but the first are indented."""
    return wrap(text, _WIDTH, subsequent_indent="  " if text.startswith("headrace") else "    ")


def _evidence(finding: Finding) -> Iterator[str]:
    for sentence in finding.evidence:
        yield from wrap(sentence, _WIDTH, initial_indent="  - ", subsequent_indent="    ")


def _try_next(findings: Sequence[Finding]) -> Iterator[str]:
    """What the largest part of the time asks for; then the largest gain that is predicted.

    Gains of the steps are none of the whole where most of that was spent before them.
    """
    advised = [finding for finding in findings if finding.change]
    if not advised:
        return
    first, others = advised[0], advised[1:]
    if first.bound_by == ("start-up",):
        others = []
    elif first.advice and first.advice.gain:
        first, others = max(advised, key=_gain), []
    yield from _wrapped(f"  Try next: {first.change}")
    if others and _gain(best := max(others, key=_gain)):
        yield from _wrapped(f"  Then: {best.change}")


def _gain(finding: Finding) -> float:
    return (finding.advice.gain or 0.0) if finding.advice else 0.0
