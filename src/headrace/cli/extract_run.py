"""Extraction commands: their common options, estimate, run with progress, summary and exit code."""

import json as json_format
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from headrace.cli.config_flags import option
from headrace.cli.progress import bar_columns, progress, progress_line, waiting
from headrace.cli.save_session import keep
from headrace.cli.signals import NOTHING_RECORDED, Ending, ending_on_sigterm
from headrace.errors import ConfigError
from headrace.profiling.number_format import counted

if TYPE_CHECKING:
    from headrace.extraction.extraction import Extraction
    from headrace.extraction.extraction_options import ExtractionOptions
    from headrace.extraction.extraction_plan import ExtractionResult
    from headrace.sampling.selection import Selection
    from headrace.video.frame_format import Crop


SELECTION: Final = (
    option(
        "fps",
        str | None,
        None,
        "Select the frame shown at each multiple of 1/FPS seconds, such as 0.5 or 1/3.",
    ),
    option("every", int | None, None, "Select every N-th frame; 1 means all.", min=1),
    option("keyframes", bool, False, "Select keyframes; no other frame is decoded.", "--keyframes"),
    option("at", str | None, None, "Select the frames shown at these seconds, such as 1.5,3.0."),
)
"""Options that select frames; each extraction needs exactly one."""
CROP: Final = option(
    "crop",
    str | None,
    None,
    "Crop each frame before resizing, in pixels, such as 256x456+10+20.",
    metavar="HxW+TOP+LEFT",
)
ESTIMATE: Final = option(
    "dry_run",
    bool,
    False,
    "Estimate number, size and duration of the output; write nothing.",
    "--dry-run",
)


def selection_of(typed: dict[str, Any]) -> "Selection":
    """Return the frame selection given by one of the options of `SELECTION`.

    Raises:
        ConfigError: none or several of the options are given, or a value is not a number.
    """
    from headrace.sampling import selection

    given = [
        name for name in ("fps", "every", "at", "keyframes") if typed[name] not in (None, False)
    ]
    if len(given) != 1:
        flags = "--fps, --every, --keyframes, --at"
        raise ConfigError(
            f"give one of {flags} (--every 1: all frames); got {len(given) or 'none'}"
        )
    [name] = given
    try:
        return selection.selection_of(name if name == "keyframes" else f"{name} {typed[name]}")
    except ConfigError as error:
        if isinstance(error.__cause__, ConfigError):
            raise error.__cause__ from None
        form = "numbers separated by commas" if name == "at" else "a number, such as 0.5 or 1/3"
        raise ConfigError(f"--{name} must be {form}, got {typed[name]!r}") from None


def crop_of(typed: dict[str, Any]) -> "Crop | None":
    """Return the crop of `--crop`; None without the option."""
    from headrace.video.frame_format import Crop

    return None if typed["crop"] is None else Crop.parse(typed["crop"])


def sources_of_files(typed: dict[str, Any], noun: str) -> tuple[str, ...]:
    """Return the paths of the videos; with `--framerate`, of image folders and patterns.

    Raises:
        ConfigError: a source is an address, or a folder or list holds no video.
    """
    from headrace.video.find_videos import find_videos
    from headrace.video.source import refuse_address

    sources, rate = typed["sources"], typed.get("rate")
    try:
        for source in sources:
            refuse_address(source)
    except ConfigError as error:
        raise ConfigError(f"cannot extract {noun} from a live source: {error}") from error
    paths = find_videos(sources) if rate is None else map(Path, sources)
    return tuple(map(str, paths))


_MAX_LOSSES: Final = 10
"""Max losses that the summary names."""


@dataclass(frozen=True, kw_only=True)
class OutputNouns:
    """Nouns for the output of an extraction, in messages."""

    noun: str
    """Output, singular: `image`."""
    sample: str
    """Sample of a video, singular: `frame`."""
    none: str
    """Predicate of a video without output: `could not be opened`."""
    unfinished: str = ""
    """Clause about outputs of unfinished chunks, for an interrupted run."""


def run_extraction(
    kind: "type[Extraction[Any]]",
    options: "ExtractionOptions",
    nouns: OutputNouns,
    typed: Mapping[str, Any],
    *,
    details: "Callable[[ExtractionResult, Any], Sequence[str]]" = lambda result, extraction: (),
) -> None:
    """Run an extraction; with `--dry-run`, estimate it.

    Args:
        kind: Class of the extraction.
        options: Its options.
        nouns: Nouns for its output.
        typed: Values of the command line.
        details: Returns further lines of the summary from the result and the extraction.
    """
    is_quiet = typed["json"]
    with ending_on_sigterm() as ending:
        extraction = None
        try:
            extraction = _prepare(kind, options, is_quiet=is_quiet)
            if typed["dry_run"]:
                _print_estimate(extraction, nouns, as_json=is_quiet)
                return
            result = _run(extraction, f"{nouns.sample}s", is_quiet=is_quiet)
            with waiting("measuring the output", is_quiet=is_quiet):
                lines = details(result, extraction)
            conclude(result, options.out, nouns, ending, as_json=is_quiet, details=lines)
        except KeyboardInterrupt:
            message = NOTHING_RECORDED
            if extraction is not None and not typed["dry_run"]:
                message = _interruption(extraction, nouns)
            print(message, file=sys.stderr)
            raise typer.Exit(ending.exit_code) from None


def _interruption(extraction: "Extraction[Any]", nouns: OutputNouns) -> str:
    """Return the message after a Ctrl-C outside the extraction proper, such as in the report."""
    came = _came(extraction)
    state = _state(came, extraction.wanted, extraction.options.out, nouns)
    return f"headrace: interrupted; {state}"


def _came(extraction: "Extraction[Any]") -> int:
    """Return the number of outputs in the folder."""
    from headrace.extraction.journal import Journal

    return extraction.progress(Journal(extraction.options.out), {}).came


def _state(came: int, wanted: int, out: Path, nouns: OutputNouns) -> str:
    """Return the state of an unfinished output folder, and the advice."""
    purpose, unfinished = (
        ("write the report", "") if came == wanted else ("continue", nouns.unfinished)
    )
    state = f"{came} of {wanted} {nouns.noun}s are in {out}{unfinished}"
    return f"{state}; run the same command again to {purpose}"


def _prepare(
    kind: "type[Extraction[Any]]", options: "ExtractionOptions", *, is_quiet: bool
) -> "Extraction[Any]":
    from headrace.profiling.machine import process_seconds

    imports_seconds = process_seconds()
    with progress(is_quiet=is_quiet) as on_video:
        return kind.prepare(
            options,
            command=("headrace", *sys.argv[1:]),
            imports_seconds=imports_seconds,
            on_video=on_video,
        )


def _run(extraction: "Extraction[Any]", unit: str, *, is_quiet: bool) -> "ExtractionResult":
    """Extract, with progress on stderr."""
    columns = bar_columns(unit, "{task.fields[rate]}/s")
    with progress_line(*columns, is_quiet=is_quiet) as bar:
        task = bar.add_task("extracting", total=extraction.wanted, rate="?")

        def advance(count: int) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, advance=count, rate="?" if speed is None else f"{speed:.1f}")

        return extraction.run(
            advance,
            lambda warning: print(f"headrace: {warning}", file=sys.stderr),
            lambda phase: bar.update(task, description=phase),
        )


def _print_estimate(extraction: "Extraction[Any]", nouns: OutputNouns, *, as_json: bool) -> None:
    with waiting("measuring a sample", is_quiet=as_json):
        estimate = extraction.estimate()
    if as_json:
        print(json_format.dumps(asdict(estimate)))
        return
    for loss in extraction.plan.left_out:
        print(f"headrace: left out: {loss.cause}", file=sys.stderr)
    for problem in estimate.problems():
        print(f"headrace: {problem}", file=sys.stderr)
    print("\n".join(estimate.lines(extraction.options.out)))
    if came := _came(extraction):
        print(f"Done before: {came} of {extraction.wanted} {nouns.noun}s, which stay as they are")


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

    Exit codes: 0 complete, 1 failed, 3 samples missing, that of `ending` if interrupted.
    """
    from headrace.profiling.session import NOT_ALL
    from headrace.report.folder import REPORT

    session, is_listed = result.session, False
    # Without a report, the run that completed the output ended before it wrote one.
    is_new = result.came > result.were_there or not (out / REPORT).exists()
    if session.outcome == "complete" and not is_new and result.were_there:
        if as_json:
            print(session.model_dump_json())
        else:
            print(f"Nothing to do: {out} already has {counted(result.were_there, nouns.noun)}")
    else:
        _write_record(result, out, nouns, as_json=as_json, details=details)
        is_listed = not as_json and sys.stdout.isatty()
    state = _state(result.came, result.wanted, out, nouns)
    if session.outcome == "interrupted":
        print(f"headrace: interrupted; {state}", file=sys.stderr)
        raise typer.Exit(ending.exit_code)
    if session.outcome == "failed":
        print(f"headrace: {session.error}; {state}", file=sys.stderr)
        raise typer.Exit(1)
    concealed = sum(loss.is_concealed for loss in session.lost)
    if concealed:
        frames = counted(concealed, "damaged frame")
        print(f"headrace: {frames} kept as FFmpeg repairs them, and marked", file=sys.stderr)
    if not result.is_all:
        _print_losses(result, nouns, is_listed=is_listed)
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
        return  # the caller prints the state
    if as_json:
        print(session.model_dump_json())
        return
    missing = f" of {result.wanted}" if result.came < result.wanted else ""
    print(f"{nouns.noun.title()}s: {result.came}{missing} in {out}")
    for line in details:
        print(line)
    for name in session.outputs:
        if name.endswith(".parquet"):
            print(f"Table: {out / name}")
    print()
    print(render_text(session) if session.steps.step else "\n".join(session.notes))
    print(f"Report: {out / REPORT}")


def _print_losses(result: "ExtractionResult", nouns: OutputNouns, *, is_listed: bool) -> None:
    """Print the number of losses and their list, unless the page above has it on this terminal."""
    from headrace.profiling.number_format import counted
    from headrace.report.session_tables import lost_rows
    from headrace.report.text import printable

    losses = [loss for loss in result.session.lost if not loss.is_concealed]
    videos = sum(loss.index is None for loss in losses)
    missing = result.wanted - result.came
    parts = (
        f"{counted(missing, nouns.sample)} of {result.wanted:,} missing" if missing else "",
        f"{counted(videos, 'video')} {nouns.none}" if videos else "",
    )
    end = ", listed above" if is_listed else ":"
    print(f"headrace: {', and '.join(filter(None, parts))}{end}", file=sys.stderr)
    if is_listed:
        return
    rows = lost_rows(result.session, losses)
    for row in rows[:_MAX_LOSSES]:
        what = "" if row.what == "the whole video" else f"{row.what}: "
        print(printable(f"  {what}{row.cause}"), file=sys.stderr)
    if len(rows) > _MAX_LOSSES:
        print(f"  and {len(rows) - _MAX_LOSSES} more; session.json lists all", file=sys.stderr)
