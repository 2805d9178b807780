"""Summary of a finished extraction on stdout and stderr, and its exit code."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from headrace.cli.save_session import keep
from headrace.cli.signals import Ending

if TYPE_CHECKING:
    from headrace.extraction.extraction_plan import ExtractionResult

NOT_ALL = 3
"""Exit code when part of the requested output is missing; the summary names it."""
_SHOWN: Final = 10
"""Losses that the summary names."""


@dataclass(frozen=True, kw_only=True)
class OutputNouns:
    """Names of the output of an extraction, for messages."""

    noun: str
    """One output, singular: `picture`."""
    sample: str
    """What one output is made of, singular: `frame`."""
    none: str
    """Predicate of a video without output: `could not be opened`."""


def conclude(
    result: "ExtractionResult",
    out: Path,
    nouns: OutputNouns,
    ending: Ending,
    *,
    as_json: bool,
    details: Sequence[str] = (),
) -> None:
    """Write the record to the output folder, print the summary with `details`, and exit.

    Exit codes: 0 all came, 1 failed, 3 some did not come, that of `ending` if interrupted.
    """
    from headrace.profiling.number_format import counted
    from headrace.report.folder import REPORT

    session = result.session
    # Without a report, the run that made the last output ended before it wrote one.
    is_new = result.came > result.were_there or not (out / REPORT).exists()
    if session.outcome == "complete" and not is_new and result.were_there:
        if as_json:
            print(session.model_dump_json())
        else:
            are = "is" if result.were_there == 1 else "are"
            print(f"Nothing to do: {counted(result.were_there, nouns.noun)} {are} in {out} already")
    else:
        _write_record(result, out, nouns, as_json=as_json, details=details)
    state = f"{result.came} of {result.wanted} {nouns.noun}s are done in {out}"
    advice = "run the same command again to go on"
    if session.outcome == "interrupted":
        print(f"headrace: interrupted; {state}; {advice}", file=sys.stderr)
        raise typer.Exit(ending.exit_code)
    if session.outcome == "failed":
        print(f"headrace: {session.error}; {state}; {advice}", file=sys.stderr)
        raise typer.Exit(1)
    if not result.is_all:
        _print_losses(result, nouns)
        raise typer.Exit(NOT_ALL)


def _write_record(
    result: "ExtractionResult",
    out: Path,
    nouns: OutputNouns,
    *,
    as_json: bool,
    details: Sequence[str],
) -> None:
    """Write the session to the folder, and print it."""
    from headrace.report.folder import REPORT
    from headrace.report.text import render_text

    try:
        session = keep(result.session, out, is_quiet=as_json)
    except typer.Exit:
        if result.session.outcome == "complete":
            raise
        return  # the caller prints what is done
    if as_json:
        print(session.model_dump_json())
        return
    if session.steps.step:
        print(render_text(session))
    else:
        print("\n".join(session.notes))
    print(f"{nouns.noun.title()}s: {result.came} in {out}")
    for line in details:
        print(line)
    for name in session.outputs:
        if name.endswith(".parquet"):
            print(f"Table: {out / name}")
    print(f"Report: {out / REPORT}")


def _print_losses(result: "ExtractionResult", nouns: OutputNouns) -> None:
    from headrace.profiling.number_format import counted
    from headrace.report.losses import lost_rows
    from headrace.report.text import printable

    losses = [loss for loss in result.session.lost if not loss.is_concealed]
    videos = sum(loss.index is None for loss in losses)
    missing = result.wanted - result.came
    parts = (
        f"{counted(missing, nouns.sample)} of {result.wanted:,} did not come" if missing else "",
        f"{counted(videos, 'video')} {nouns.none}" if videos else "",
    )
    print(f"headrace: {', and '.join(filter(None, parts))}:", file=sys.stderr)
    rows = lost_rows(result.session, losses)
    for row in rows[:_SHOWN]:
        print(printable(f"  {row.what}: {row.cause}"), file=sys.stderr)
    if len(rows) > _SHOWN:
        print(f"  and {len(rows) - _SHOWN} more; session.json names all", file=sys.stderr)
