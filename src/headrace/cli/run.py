"""`headrace run`: a model on videos, from the source to the report."""

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from headrace.cli.progress import progress_line, waiting
from headrace.cli.retrain_run import with_mode
from headrace.cli.run_options import PARAMETERS, files_among, run_options
from headrace.cli.save_session import is_launched, keep, run_as_launched
from headrace.cli.sources import check_videos
from headrace.cli.stopping import NOTHING_RECORDED, Ending, ending_at_once, ending_on_sigterm
from headrace.cli.trying import refuse_other_than_file, try_advice

if TYPE_CHECKING:
    from headrace.cli.live_run import LogFormat
    from headrace.profiling.session import Session
    from headrace.profiling.steps import Step
    from headrace.runs.options import RunOptions
    from headrace.runs.run import Runner
    from headrace.sinks.web.options import WebOptions

_NAMES: Final = {
    "boxes.parquet": "Boxes",
    "annotated/": "Annotated pictures",
    "coco.json": "Boxes, for COCO's tools",
    ".mp4": "Annotated video",
    ".jsonl": "Predictions",
    ".parquet": "Predictions",
    ".html": "Report",
    ".gz": "Trace, for ui.perfetto.dev",
}
"""What is said of the files a reader opens, by their names or endings."""
_SHOWN: Final = 8
"""Files that are named at the end; the report names them all."""


def _run(**typed: Any) -> None:
    from headrace.cli.web import web_options

    options = run_options(typed)
    web = web_options(
        typed["view"],
        typed["web_address"],
        typed["web_port"],
        typed["web_host"],
        typed["web_token_file"],
        typed["max_silence"],
    )
    check_videos(files_among(options.input))
    is_quiet = typed["json"] or typed["log_format"] == "json"
    with ending_at_once(), waiting("loading PyTorch", is_quiet=is_quiet):
        _import_what_runs()
    _run_either(
        options,
        web,
        is_dry=typed["dry_run"],
        is_quiet=typed["json"],
        is_trying=typed["try_advised"],
        log_format=typed["log_format"],
    )


run = with_mode(
    _run,
    PARAMETERS,
    "Run a model on videos: predictions, annotated video and report in one folder.",
)


def _import_what_runs() -> None:
    """Import the large libraries here, which takes seconds."""
    import headrace.report.text
    import headrace.runs.live.runner
    import headrace.runs.run  # noqa: F401


def _run_either(
    options: "RunOptions",
    web: "WebOptions | None",
    *,
    is_dry: bool,
    is_quiet: bool,
    is_trying: bool,
    log_format: "LogFormat",
) -> None:
    """Files at full speed by the run that is made for them, all else as it comes."""
    from headrace.cli.live_run import execute_live
    from headrace.runs.live.live_sources import plain_files
    from headrace.runs.task import with_task

    if options.marks.trace:
        # PyTorch's profiler says on stderr that it starts and ends, unless it is told before.
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")

    with ending_on_sigterm() as ending:
        try:
            options = with_task(options)
            paths = plain_files(options)
            if is_trying and paths is None:
                refuse_other_than_file()
            if paths is not None:
                files = replace(options, input=replace(options.input, sources=paths))
                session = execute(files, ending, is_dry=is_dry, is_quiet=is_quiet)
            else:
                session = execute_live(
                    options, web, ending, is_dry=is_dry, is_quiet=is_quiet, log_format=log_format
                )
        except KeyboardInterrupt:
            print(when(ending, options.output.out), file=sys.stderr)
            raise typer.Exit(ending.exit_code) from None
        if session is not None:
            conclude(session, options.output.out, ending.exit_code, is_quiet=is_quiet)
            if is_trying:
                again = partial(execute, ending=ending, is_dry=False, is_quiet=True)
                try_advice(files, session, again, is_quiet=is_quiet)


def when(ending: Ending, out: Path) -> str:
    """Return what is said of a run that was interrupted and leaves no record."""
    if not ending.has_begun:
        return NOTHING_RECORDED
    return f"headrace: interrupted while the record was written; what is there is kept in {out}"


def execute(
    options: "RunOptions", ending: Ending, *, is_dry: bool, is_quiet: bool
) -> "Session | None":
    """Run files at full speed and keep what it came to; of a dry run, say what would be done.

    Raises:
        HeadraceError: it cannot be run, or its results cannot be written.
    """
    from headrace.profiling.machine import describe_machine, process_seconds, versions
    from headrace.report.text import render_setup
    from headrace.runs.run import Runner

    command = ("headrace", *sys.argv[1:])
    with waiting("opening the source and the model", is_quiet=is_quiet):
        runner = Runner.prepare(options, command=command, imports_seconds=process_seconds())
    out = options.output.out
    if not is_quiet and not is_launched():
        setup = options.configuration()
        print(render_setup(machine=describe_machine(), versions=versions(), configuration=setup))
    if is_dry:
        for note in runner.notes:
            print(f"headrace: {note}", file=sys.stderr)
        names = [str(index.source) for index in runner.indexes]
        what = names[0] if len(names) == 1 else f"{len(names)} videos"
        frames = f"{runner.frames_planned} frames of {what}"
        if runner.pictures:
            frames = f"{runner.frames_planned} of {len(runner.pictures)} pictures"
        print(
            f"Dry run: {frames} would be decoded; results would go to {out}",
            file=sys.stderr if is_quiet else sys.stdout,
        )
        return None
    ending.begin()
    return keep(_with_progress(runner, is_quiet=is_quiet), out, is_quiet=is_quiet)


def conclude(session: "Session", out: Path, interrupted: int, *, is_quiet: bool) -> None:
    """Say how it went; end with the exit code that tells."""
    from headrace.report.text import render_text

    if is_quiet:
        print(session.model_dump_json())
    else:
        print(render_text(session))
        said = [
            (_NAMES.get(name) or _NAMES.get(Path(name).suffix), name) for name in session.outputs
        ]
        for words, name in [each for each in said if each[0]][-_SHOWN:]:
            print(f"{words}: {out / name}")
    if session.outcome == "interrupted":
        print(f"headrace: interrupted; what was done is kept in {out}", file=sys.stderr)
        raise typer.Exit(interrupted)
    if session.outcome == "failed":
        print(f"headrace: {session.error}; what was done is kept in {out}", file=sys.stderr)
        raise typer.Exit(1)
    lost = [event.words for event in session.events if event.kind == "failed"]
    if lost:
        print(f"headrace: {lost[0]}; what was done is kept in {out}", file=sys.stderr)
        raise typer.Exit(1)


def _words_for(name: str) -> str | None:
    return _NAMES.get(name) or _NAMES.get(Path(name).suffix)


def _with_progress(runner: "Runner", *, is_quiet: bool) -> "Session":
    """Run with a progress bar on a terminal's stderr; return the session."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    columns = (
        *("{task.description}", BarColumn(), MofNCompleteColumn(), "frames"),
        *("{task.fields[rate]} frames/s", TimeRemainingColumn()),
    )
    with progress_line(*columns, is_quiet=is_quiet) as progress:
        task = progress.add_task("running", total=runner.frames_planned, rate="?")

        def show(step: "Step") -> None:
            seconds = (step.started_ms + step.total_ms) / 1e3
            # Step 0 may come again: a run that ran out of memory begins anew with smaller batches.
            done = (progress.tasks[0].completed if step.step else 0) + step.frames
            # What a run does at its end takes seconds: see `with_alternatives`.
            what = "running" if done < runner.frames_planned else "measuring other settings after"
            progress.update(task, description=what, completed=done, rate=f"{done / seconds:.0f}")

        return run_as_launched(runner, show, runner.options.output.out)
