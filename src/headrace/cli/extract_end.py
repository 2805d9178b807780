"""An extraction on its way and at its end: progress, what it came to, what did not come."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from headrace.cli.progress import progress_line
from headrace.cli.save_session import keep
from headrace.cli.stopping import Ending

if TYPE_CHECKING:
    from headrace.extraction.plan import Extracted

NOT_ALL = 3
"""Exit code when some of what was asked for did not come: it is named."""
_SHOWN: Final = 10
"""Losses that are named at the end."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """How what comes out of an extraction is called."""

    noun: str
    """One of it."""
    sample: str
    """What each is made of."""
    none: str
    """What is said of a video that gave nothing."""


PICTURES: Final = Words(noun="picture", sample="frame", none="could not be opened")


def with_progress(
    run: "Callable[[Callable[[int], None], Callable[[str], None]], Extracted]",
    total: int,
    unit: str,
    *,
    is_quiet: bool,
) -> "Extracted":
    """Extract with progress on stderr; `run` is given what moves it, and what names a phase."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    columns = (
        *("{task.description}", BarColumn(), MofNCompleteColumn(), unit),
        *("{task.fields[rate]}/s", TimeRemainingColumn()),
    )
    with progress_line(*columns, is_quiet=is_quiet) as bar:
        task = bar.add_task("extracting", total=total, rate="?")

        def show(count: int) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, advance=count, rate="?" if speed is None else f"{speed:.1f}")

        return run(show, lambda what: bar.update(task, description=what))


def conclude(
    extracted: "Extracted",
    out: Path,
    words: Words,
    ending: Ending,
    *,
    as_json: bool,
    more: Sequence[str] = (),
) -> None:
    """Say how it went, and `more` of what came; end with the exit code that tells."""
    from headrace.profiling.number_format import counted
    from headrace.report.folder import REPORT

    session, nouns = extracted.session, f"{words.noun}s"
    # Without a report, what made the last of it was ended before it wrote one.
    is_new = extracted.came > extracted.were_there or not (out / REPORT).exists()
    if session.outcome == "complete" and not is_new and extracted.were_there:
        if as_json:
            print(session.model_dump_json())
        else:
            are = "is" if extracted.were_there == 1 else "are"
            there = counted(extracted.were_there, words.noun)
            print(f"Nothing to do: {there} {are} in {out} already")
    else:
        _write(extracted, out, words, as_json=as_json, more=more)
    kept = f"{extracted.came} of {extracted.wanted} {nouns} are done in {out}"
    again = "run the same command again to go on"
    if session.outcome == "interrupted":
        print(f"headrace: interrupted; {kept}; {again}", file=sys.stderr)
        raise typer.Exit(ending.exit_code)
    if session.outcome == "failed":
        print(f"headrace: {session.error}; {kept}; {again}", file=sys.stderr)
        raise typer.Exit(1)
    if not extracted.is_all:
        _name_the_lost(extracted, words)
        raise typer.Exit(NOT_ALL)


def _write(
    extracted: "Extracted", out: Path, words: Words, *, as_json: bool, more: Sequence[str]
) -> None:
    """Write the folder's record, and print it."""
    from headrace.report.folder import REPORT
    from headrace.report.text import render_text

    try:
        session = keep(extracted.session, out, is_quiet=as_json)
    except typer.Exit:
        if extracted.session.outcome == "complete":
            raise
        return  # what is done already is said next
    if as_json:
        print(session.model_dump_json())
        return
    if session.steps.step:
        print(render_text(session))
    else:
        print("\n".join(session.notes))
    print(f"{words.noun.title()}s: {extracted.came} in {out}")
    for line in more:
        print(line)
    for name in session.outputs:
        if name.endswith(".parquet"):
            print(f"Table: {out / name}")
    print(f"Report: {out / REPORT}")


def _name_the_lost(extracted: "Extracted", words: Words) -> None:
    from headrace.profiling.number_format import counted
    from headrace.report.losses import lost_rows
    from headrace.report.text import printable

    lost = [each for each in extracted.session.lost if not each.is_concealed]
    videos = sum(each.index is None for each in lost)
    missing = extracted.wanted - extracted.came
    parts = (
        f"{counted(missing, words.sample)} of {extracted.wanted:,} did not come" if missing else "",
        f"{counted(videos, 'video')} {words.none}" if videos else "",
    )
    print(f"headrace: {', and '.join(filter(None, parts))}:", file=sys.stderr)
    found = lost_rows(extracted.session, lost)
    for row in found[:_SHOWN]:
        print(printable(f"  {row.what}: {row.cause}"), file=sys.stderr)
    if len(found) > _SHOWN:
        print(f"  and {len(found) - _SHOWN} more; session.json names all", file=sys.stderr)
