"""Prepare an extraction, then estimate it or run it with progress, as a command line asks."""

import json as json_format
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli.extract_summary import OutputNouns, conclude
from headrace.cli.progress import bar_columns, progress, progress_line, waiting
from headrace.cli.signals import NOTHING_RECORDED, ending_on_sigterm

if TYPE_CHECKING:
    from headrace.extraction.extraction import Extraction
    from headrace.extraction.extraction_options import ExtractionOptions
    from headrace.extraction.extraction_plan import ExtractionResult


def run_extraction(
    kind: "type[Extraction[Any]]",
    options: "ExtractionOptions",
    nouns: OutputNouns,
    typed: Mapping[str, Any],
    *,
    interrupted: str = NOTHING_RECORDED,
    details: "Callable[[ExtractionResult, Any], Sequence[str]]" = lambda result, extraction: (),
) -> None:
    """Run an extraction; with `--dry-run`, estimate it.

    Args:
        kind: Class of the extraction.
        options: Its options.
        nouns: Names of its output, for messages.
        typed: Values of the command line.
        interrupted: Message after Ctrl-C outside of the work, where the output folder was begun.
        details: Returns further lines of the summary from the result and the extraction.
    """
    from headrace.video.find_videos import OUTPUT_HOME

    is_quiet = typed["json"]
    with ending_on_sigterm() as ending:
        try:
            extraction = _prepare(kind, options, is_quiet=is_quiet)
            if typed["dry_run"]:
                _print_estimate(extraction, as_json=is_quiet)
                return
            result = _run(extraction, f"{nouns.sample}s", is_quiet=is_quiet)
            with waiting("measuring what came", is_quiet=is_quiet):
                lines = details(result, extraction)
        except KeyboardInterrupt:
            is_begun = (options.out / OUTPUT_HOME).exists() and not typed["dry_run"]
            print(interrupted if is_begun else NOTHING_RECORDED, file=sys.stderr)
            raise typer.Exit(ending.exit_code) from None
        conclude(result, options.out, nouns, ending, as_json=is_quiet, details=lines)


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


def _print_estimate(extraction: "Extraction[Any]", *, as_json: bool) -> None:
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
