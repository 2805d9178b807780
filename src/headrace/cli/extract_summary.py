"""An extraction on its way and at its end: progress, what it came to, what did not come."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from headrace.cli.progress import progress_line
from headrace.cli.save_session import keep
from headrace.cli.signals import Ending

if TYPE_CHECKING:
    from headrace.decode.proxies import ProxyRow
    from headrace.extraction.extraction_plan import ExtractionResult
    from headrace.extraction.proxies.proxy_extraction import ProxyEstimate, ProxyMaking
    from headrace.extraction.proxies.totals import ProxyTotals
    from headrace.planner.proxy_gain import ProxyGain


NOT_ALL = 3
"""Exit code when some of what was asked for did not come: it is named."""
_SHOWN: Final = 10
"""Losses that are named at the end."""


@dataclass(frozen=True, kw_only=True)
class OutputNouns:
    """How what comes out of an extraction is called."""

    noun: str
    """One of it."""
    sample: str
    """What each is made of."""
    none: str
    """What is said of a video that gave nothing."""


PICTURES: Final = OutputNouns(noun="picture", sample="frame", none="could not be opened")


def with_progress(
    run: "Callable[[Callable[[int], None], Callable[[str], None]], ExtractionResult]",
    total: int,
    unit: str,
    *,
    is_quiet: bool,
) -> "ExtractionResult":
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
    extracted: "ExtractionResult",
    out: Path,
    words: OutputNouns,
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
    extracted: "ExtractionResult",
    out: Path,
    words: OutputNouns,
    *,
    as_json: bool,
    more: Sequence[str],
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


def _name_the_lost(extracted: "ExtractionResult", words: OutputNouns) -> None:
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


_BUSY: Final = 0.2
"""Cores, from which on figures are not those of a machine at rest."""


def what_came(extracted: "ExtractionResult", made: "ProxyMaking", *, measures: bool) -> list[str]:
    """Return what the proxies lost and won, in lines; and record it in their folder.

    Args:
        extracted: What the run came to.
        made: What it was.
        measures: Whether to time originals and proxies, some 5 s.

    Raises:
        ConfigError: the record cannot be written.
    """
    from headrace.decode.proxies import read_rows
    from headrace.extraction.proxies.totals import ProxyTotals
    from headrace.planner.proxy_gain import RECORD, write_record

    if extracted.session.outcome != "complete":
        return []
    # Without a record, what made the last of them was ended before it told what they came to.
    is_told = (made.options.out / RECORD).exists() and extracted.came == extracted.were_there
    rows = [] if is_told else list(read_rows(made.options.out))
    totals = ProxyTotals.of(rows)
    if totals is None:
        return []
    gain = _gain(made, rows) if measures else None
    write_record(made.options.out, totals, gain)
    return [*_lost_words(totals), *(_gain_words(gain) if gain else ())]


def forecast_words(found: "ProxyEstimate", out: Path) -> str:
    """Return what a dry run says."""
    from headrace.profiling.number_format import counted, megabytes, percent, seconds

    what = f"{counted(found.frames, 'frame')} of {counted(found.videos, 'video')}"
    if found.num_bytes is None or found.seconds is None:
        why = "no sample could be decoded, so size and time are unknown"
        return f"Dry run: proxies of {what} would go to {out}; {why}"
    return (
        f"Dry run: proxies of {what} would go to {out}\n"
        f"Size: about {megabytes(found.num_bytes)}, "
        f"{percent(found.num_bytes / found.original_bytes)} of the originals, estimated from "
        f"{counted(found.samples, 'frame')}\n"
        f"Time: about {seconds(found.seconds)} on {counted(found.workers, 'worker')}, "
        "by what these took"
    )


def _gain(made: "ProxyMaking", rows: "list[ProxyRow]") -> "ProxyGain | None":
    """Return what is won; None where there is too little to tell, or somebody will not wait."""
    from headrace.decode.proxies import Proxies
    from headrace.errors import ConfigError, MediaError
    from headrace.planner.plan_config import PlanConfig
    from headrace.planner.proxy_gain import proxy_gain

    by_path = {str(index.source.path): index for index in made.plan.indexes.values()}
    try:
        return proxy_gain(
            [by_path[row.path] for row in rows],
            Proxies(made.options.out).all([row.path for row in rows]),
            rows,
            PlanConfig(size=made.options.size.frame_size),
        )
    except (ConfigError, MediaError, KeyboardInterrupt):
        return None


def _lost_words(totals: "ProxyTotals") -> Iterator[str]:
    from headrace.profiling.number_format import counted, megabytes, percent

    yield (
        f"Size: {megabytes(totals.bytes)} in {counted(totals.proxies, 'file')}, "
        f"{percent(totals.bytes / totals.original_bytes)} of the originals"
    )
    for name, each, places in (("PSNR", totals.psnr, 1), ("SSIM", totals.ssim, 3)):
        if each is None:
            continue
        unit = " dB" if name == "PSNR" else ""
        yield (
            f"{name}: {each.mean:.{places}f}{unit}; in the worst frame "
            f"{each.worst:.{places}f}{unit} ({Path(each.worst_path).name})"
        )


def _gain_words(gain: "ProxyGain") -> Iterator[str]:
    from headrace.profiling.number_format import decimal

    yield (
        f"Predicted frames/s, batches of {gain.batch_size} in {gain.memory_budget}: "
        "originals, proxies"
    )
    for each in gain.gains:
        yield f"  {each.strategy:<22}{decimal(each.before):>9}{decimal(each.after):>10}"
    if gain.others >= _BUSY:
        yield (
            f"  Other programs kept {gain.others:.1f} cores busy meanwhile: time it again with "
            "headrace plan"
        )
