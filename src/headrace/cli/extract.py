"""`headrace extract`: what is taken out of many videos and kept; frames as pictures."""

import json as json_format
import sys
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli.extract_options import FrameFlags
from headrace.cli.frame_size import frame_size
from headrace.cli.keeping import keep
from headrace.cli.options import flags, with_parameters
from headrace.cli.progress import progress, progress_line
from headrace.cli.stopping import NOTHING_RECORDED, Ending, ending_on_sigterm

if TYPE_CHECKING:
    from headrace.extraction.attempt import Extracted
    from headrace.extraction.forecast import Forecast
    from headrace.extraction.frame_extraction import FrameExtraction
    from headrace.extraction.frame_request import FrameOptions
    from headrace.sampling.selection import Selection

NOT_ALL = 3
"""Exit code when some of what was asked for did not come: it is named."""
_SHOWN = 10
"""Losses that are named at the end."""
_CHOICES = "--fps, --every, --keyframes, --at"

extract = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Take frames out of many videos, and keep them.",
)


@extract.callback()
def _group() -> None:
    """Take frames out of many videos, and keep them."""


def _frames(**typed: Any) -> None:
    from headrace.extraction.frame_request import FrameOptions
    from headrace.extraction.pictures import Pictures
    from headrace.video.manifest import find_videos

    _refuse_streams(typed["sources"])
    options = FrameOptions(
        sources=tuple(map(str, find_videos(typed["sources"]))),
        selection=_selection(
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
            extracted = _with_progress(prepared, is_quiet=is_quiet)
        except KeyboardInterrupt:
            print(NOTHING_RECORDED, file=sys.stderr)
            raise typer.Exit(ending.exit_code) from None
        _conclude(extracted, options.out, ending, as_json=is_quiet)


extract.command("frames")(
    with_parameters(
        _frames,
        flags(FrameFlags),
        "Extract frames of videos as pictures, with a table of them. Resumable: run it again.",
    )
)


def _refuse_streams(sources: list[str]) -> None:
    from headrace.errors import ConfigError

    if any("://" in each for each in sources):
        raise ConfigError(
            "frames are extracted from files, got an address; record it to a file first, as with "
            "ffmpeg -i ADDRESS -c copy video.mkv"
        )


def _selection(
    fps: str | None, every: int | None, at: str | None, *, is_keyframes: bool
) -> "Selection":
    from headrace.errors import ConfigError
    from headrace.sampling.selection import AtTimes, ByRate, EveryNth, Keyframes

    given = [each for each in (fps, every, at, is_keyframes or None) if each is not None]
    if len(given) != 1:
        found = "got none" if not given else f"got {len(given)} of them"
        raise ConfigError(f"say which frames by one of {_CHOICES} (--every 1: all); {found}")
    if fps is not None:
        return ByRate(_number(fps, "--fps"))
    if every is not None:
        return EveryNth(every)
    if at is not None:
        return AtTimes(tuple(_number(each, "--at") for each in at.split(",")))
    return Keyframes()


def _number(text: str, flag: str) -> Fraction:
    from headrace.errors import ConfigError

    try:
        return Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        how = "numbers with commas between them" if flag == "--at" else "a number, as 0.5 or 1/3"
        raise ConfigError(f"{flag} takes {how}, got {text!r}") from None


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


def _with_progress(prepared: "FrameExtraction", *, is_quiet: bool) -> "Extracted":
    """Extract with a progress bar on a terminal's stderr."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    columns = (
        *("{task.description}", BarColumn(), MofNCompleteColumn(), "frames"),
        *("{task.fields[rate]}/s", TimeRemainingColumn()),
    )
    with progress_line(*columns, is_quiet=is_quiet) as bar:
        task = bar.add_task("extracting", total=prepared.plan.frames, rate="?")

        def show(count: int) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, advance=count, rate="?" if speed is None else f"{speed:.1f}")

        return prepared.run(show)


def _print_forecast(prepared: "FrameExtraction", *, as_json: bool) -> None:
    found = prepared.forecast()
    if as_json:
        print(json_format.dumps(asdict(found)))
        return
    for loss in prepared.plan.left_out:
        print(f"headrace: left out: {loss.cause}", file=sys.stderr)
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


def _conclude(extracted: "Extracted", out: Path, ending: Ending, *, as_json: bool) -> None:
    """Say how it went; end with the exit code that tells."""
    session = extracted.session
    if session.outcome == "complete" and not len(session.steps) and extracted.were_there:
        if as_json:
            print(session.model_dump_json())
        else:
            print(f"Nothing to do: {extracted.were_there} pictures are in {out} already")
    else:
        _write(extracted, out, as_json=as_json)
    kept = f"{extracted.came} of {extracted.wanted} pictures are done in {out}"
    again = "run the same command again to go on"
    if session.outcome == "interrupted":
        print(f"headrace: interrupted; {kept}; {again}", file=sys.stderr)
        raise typer.Exit(ending.exit_code)
    if session.outcome == "failed":
        print(f"headrace: {session.error}; {kept}; {again}", file=sys.stderr)
        raise typer.Exit(1)
    if not extracted.is_all:
        _name_the_lost(extracted)
        raise typer.Exit(NOT_ALL)


def _write(extracted: "Extracted", out: Path, *, as_json: bool) -> None:
    """Write the folder's record, and print it."""
    from headrace.errors import ConfigError
    from headrace.extraction.table import NAME
    from headrace.report.folder import REPORT
    from headrace.report.text import render_text

    try:
        session = keep(extracted.session, out, is_quiet=as_json)
    except ConfigError as error:
        if extracted.session.outcome != "failed":
            raise
        # What it failed of is likely the same, and comes first.
        print(f"headrace: {error}", file=sys.stderr)
        return
    if as_json:
        print(session.model_dump_json())
        return
    print(render_text(session))
    print(f"Pictures: {extracted.came} in {out}")
    if NAME in session.outputs:
        print(f"Table: {out / NAME}")
    print(f"Report: {out / REPORT}")


def _name_the_lost(extracted: "Extracted") -> None:
    from headrace.report.losses import lost_rows
    from headrace.report.numbers import counted
    from headrace.report.text import printable

    lost = [each for each in extracted.session.lost if not each.is_concealed]
    videos = sum(each.index is None for each in lost)
    frames = extracted.wanted - extracted.came
    parts = (
        f"{counted(frames, 'frame')} of {extracted.wanted:,} did not come" if frames else "",
        f"{counted(videos, 'video')} could not be opened" if videos else "",
    )
    print(f"headrace: {', and '.join(filter(None, parts))}:", file=sys.stderr)
    found = lost_rows(lost)
    for row in found[:_SHOWN]:
        print(printable(f"  {row.what}: {row.cause}"), file=sys.stderr)
    if len(found) > _SHOWN:
        print(f"  and {len(found) - _SHOWN} more; session.json names all", file=sys.stderr)
