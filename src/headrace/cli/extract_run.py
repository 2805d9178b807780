"""What all commands that extract do with what was typed: prepare, foretell or run, and tell."""

import json as json_format
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli.extract_summary import OutputNouns, conclude, with_progress
from headrace.cli.progress import progress, waiting
from headrace.cli.signals import NOTHING_RECORDED, ending_on_sigterm

if TYPE_CHECKING:
    from headrace.extraction.extraction import Extraction
    from headrace.extraction.extraction_options import ExtractionOptions
    from headrace.extraction.extraction_plan import ExtractionResult


def run_extraction(
    kind: "type[Extraction[Any]]",
    options: "ExtractionOptions",
    words: OutputNouns,
    typed: Mapping[str, Any],
    *,
    forecast_words: Callable[[Any, Path], str],
    once_begun: str = NOTHING_RECORDED,
    more: "Callable[[ExtractionResult, Any], Sequence[str]]" = lambda extracted, prepared: (),
) -> None:
    """Run an extraction, or foretell it where --dry-run was typed.

    Args:
        kind: What is extracted.
        options: What of.
        words: How it is called.
        typed: The command line.
        forecast_words: Returns what a forecast says of an output folder.
        once_begun: What is said after a Ctrl-C that came before or after the work, once the folder
            was begun.
        more: Returns what else there is to say at the end; given what came, and the extraction.
    """
    from headrace.video.find_videos import OUTPUT_HOME

    is_quiet = typed["json"]
    with ending_on_sigterm() as ending:
        try:
            prepared = _prepared(kind, options, is_quiet=is_quiet)
            if typed["dry_run"]:
                _print_forecast(prepared, forecast_words, as_json=is_quiet)
                return
            extracted = with_progress(
                lambda show, begin: prepared.run(show, _warn, begin),
                prepared.wanted,
                f"{words.sample}s",
                is_quiet=is_quiet,
            )
            with waiting("measuring what came", is_quiet=is_quiet):
                said = more(extracted, prepared)
        except KeyboardInterrupt:
            is_begun = (options.out / OUTPUT_HOME).exists() and not typed["dry_run"]
            print(once_begun if is_begun else NOTHING_RECORDED, file=sys.stderr)
            raise typer.Exit(ending.exit_code) from None
        conclude(extracted, options.out, words, ending, as_json=is_quiet, more=said)


def _prepared(
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


def _warn(warning: str) -> None:
    print(f"headrace: {warning}", file=sys.stderr)


def _print_forecast(
    prepared: "Extraction[Any]", words: Callable[[Any, Path], str], *, as_json: bool
) -> None:
    with waiting("measuring a sample", is_quiet=as_json):
        found = prepared.estimate()
    if as_json:
        print(json_format.dumps(asdict(found)))
        return
    for loss in prepared.plan.left_out:
        print(f"headrace: left out: {loss.cause}", file=sys.stderr)
    for failure in found.failures:
        print(f"headrace: {failure}", file=sys.stderr)
    print(words(found, prepared.options.out))
