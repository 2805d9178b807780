"""`headrace extract`: what is taken out of many videos and kept: frames as pictures, features."""

import json as json_format
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli.extract_aggregate import aggregate
from headrace.cli.extract_end import PICTURES, conclude, with_progress
from headrace.cli.extract_export import export
from headrace.cli.extract_features import extract_features
from headrace.cli.extract_options import (
    ClusterFlags,
    HowFlags,
    ModelFlags,
    PictureFlags,
    SampleFlags,
    WhichFlags,
)
from headrace.cli.extract_selection import refuse_streams, selection_of_flags
from headrace.cli.frame_size import frame_size
from headrace.cli.options import flags, with_parameters
from headrace.cli.progress import progress
from headrace.cli.stopping import NOTHING_RECORDED, ending_on_sigterm

if TYPE_CHECKING:
    from headrace.extraction.forecast import Forecast
    from headrace.extraction.frame_extraction import FrameExtraction
    from headrace.extraction.frame_request import FrameOptions

extract = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Take frames or features out of many videos, and keep them.",
)


@extract.callback()
def _group() -> None:
    """Take frames or features out of many videos, and keep them."""


def _frames(**typed: Any) -> None:
    from headrace.extraction.frame_request import FrameOptions
    from headrace.extraction.pictures import Pictures
    from headrace.video.manifest import find_videos

    refuse_streams(typed["sources"], "frames")
    options = FrameOptions(
        sources=tuple(map(str, find_videos(typed["sources"]))),
        selection=selection_of_flags(
            typed["fps"], typed["every"], typed["at"], is_keyframes=typed["keyframes"]
        ),
        out=typed["out"],
        pictures=Pictures(
            format=typed["format"],
            quality=typed["quality"],
            size=frame_size(typed["size"]),
            prefix=typed["prefix"],
        ),
        workers=typed["workers"],
        on_error=typed["on_error"],
        retry=typed["retry"],
    )
    is_quiet = typed["json"]
    with ending_on_sigterm() as ending:
        try:
            prepared = _prepared(options, is_quiet=is_quiet)
            if typed["dry_run"]:
                _print_forecast(prepared, as_json=is_quiet)
                return
            extracted = with_progress(
                prepared.run, prepared.plan.frames, "frames", is_quiet=is_quiet
            )
        except KeyboardInterrupt:
            print(NOTHING_RECORDED, file=sys.stderr)
            raise typer.Exit(ending.exit_code) from None
        conclude(extracted, options.out, PICTURES, ending, as_json=is_quiet)


extract.command("frames")(
    with_parameters(
        _frames,
        flags(WhichFlags, PictureFlags, HowFlags),
        "Extract frames of videos as pictures, with a table of them. Resumable: run it again.",
    )
)
extract.command("aggregate")(aggregate)
extract.command("export")(export)


extract.command("features")(
    with_parameters(
        extract_features,
        flags(WhichFlags, SampleFlags, ModelFlags, ClusterFlags, HowFlags),
        "Keep what a model gives for frames or clips of videos, as tables. Resumable.",
    )
)


def _prepared(options: "FrameOptions", *, is_quiet: bool) -> "FrameExtraction":
    from headrace.extraction.frame_extraction import FrameExtraction
    from headrace.profiling.machine import process_seconds

    imports_seconds = process_seconds()
    with progress(is_quiet=is_quiet) as on_video:
        return FrameExtraction.prepare(
            options,
            command=("headrace", *sys.argv[1:]),
            imports_seconds=imports_seconds,
            on_video=on_video,
        )


def _print_forecast(prepared: "FrameExtraction", *, as_json: bool) -> None:
    found = prepared.forecast()
    if as_json:
        print(json_format.dumps(asdict(found)))
        return
    for loss in prepared.plan.left_out:
        print(f"headrace: left out: {loss.cause}", file=sys.stderr)
    for failure in found.failures:
        print(f"headrace: {failure}", file=sys.stderr)
    print(_forecast_words(found, prepared.options.out))


def _forecast_words(found: "Forecast", out: Path) -> str:
    from headrace.report.numbers import counted, megabytes, seconds

    what = f"{counted(found.frames, 'picture')} of {counted(found.videos, 'video')}"
    if found.num_bytes is None or found.seconds is None:
        why = "no sample could be decoded, so size and time are unknown"
        return f"Dry run: {what} would go to {out}; {why}"
    least, most = found.least_bytes or 0, found.most_bytes or 0
    return (
        f"Dry run: {what} would go to {out}\n"
        f"Size: about {megabytes(found.num_bytes)}, estimated from "
        f"{counted(found.samples, 'sample')} of {least / 1e3:.0f} to {most / 1e3:.0f} kB\n"
        f"Time: about {seconds(found.seconds)} on {counted(found.workers, 'worker')}, "
        "by what the samples took"
    )
