"""`headrace run`: inference on videos, cameras and streams."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from headrace.cli.progress import bar_columns, progress_line, waiting
from headrace.cli.retrain_run import with_mode
from headrace.cli.run_flags import PARAMETERS, files_among, run_options, web_options
from headrace.cli.save_session import conclude, execute, print_interruption, run_as_launched
from headrace.cli.signals import Ending, ending_at_once, ending_on_sigterm
from headrace.cli.sources import check_videos
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.profiling.session import Session, Step
    from headrace.runs.file_run import Runner
    from headrace.runs.run_options import RunOptions
    from headrace.sinks.web.web_options import WebOptions

_FILE_LABELS: Final = {
    "boxes.parquet": "Boxes",
    "annotated/": "Annotated images",
    "coco.json": "Boxes, for COCO's tools",
    ".mp4": "Annotated video",
    ".jsonl": "Predictions",
    ".parquet": "Predictions",
    ".html": "Report",
    ".gz": "Trace, for ui.perfetto.dev",
}
"""Name or suffix of a file of the run itself → label in the summary."""
_SINK_LABEL: Final = "File of your sink"
_SLOW_IMPORTS: Final = ("headrace.runs.file_run", "headrace.runs.live.live_session")
"""Modules that import PyTorch, which takes seconds."""
_MAX_FILES: Final = 8
"""Max files in the summary; the report lists all."""


def _run(**typed: Any) -> None:
    options, web = run_options(typed), web_options(typed)
    check_videos(files_among(options.input))
    run_and_conclude(options, _files_at_full_speed, typed, web)


run = with_mode(
    _run,
    PARAMETERS,
    "Run a model on videos: predictions, annotated video and report in one folder.",
)


def _files_at_full_speed(options: "RunOptions") -> "RunOptions | None":
    """Return the options with the sources as file paths; None for a live run."""
    from headrace.runs.live.live_sources import full_speed_files

    paths = full_speed_files(options)
    return None if paths is None else replace(options, input=replace(options.input, sources=paths))


def run_and_conclude(
    options: "RunOptions",
    as_files: "Callable[[RunOptions], RunOptions | None]",
    typed: Mapping[str, Any],
    web: "WebOptions | None" = None,
    *,
    other_seconds: float = 0.0,
) -> None:
    """Run files at full speed, or live sources, and print the summary.

    Args:
        options: Options of the run.
        as_files: Returns the options of a run of files at full speed, or None for a live run.
        typed: Values of the command line.
        web: Web page of a live run.
        other_seconds: Seconds of this process that do not count as start-up: see `execute`.
    """
    is_dry, is_quiet = typed["dry_run"], typed["json"]
    log_format = typed.get("log_format", "text")
    with ending_at_once(), waiting("loading PyTorch", is_quiet=is_quiet or log_format == "json"):
        for module in _SLOW_IMPORTS:
            import_module(module)
    from headrace.cli.live_run import run_live
    from headrace.runs.task import with_task

    if options.marks.trace:
        # Silences the start and end messages of PyTorch's profiler on stderr.
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    out, applies_advice = options.output.out, typed.get("apply_advice", False)
    with ending_on_sigterm() as ending:
        with print_interruption(ending, out):
            options = with_task(options)
            files = as_files(options)
            if files is not None:
                session = _run_files(
                    files, ending, is_dry=is_dry, is_quiet=is_quiet, other_seconds=other_seconds
                )
            elif applies_advice:
                raise ConfigError(
                    "--apply-advice compares two runs, which needs a video file at full speed; "
                    "give one file, without --pace realtime"
                )
            else:
                session = run_live(
                    options, web, ending, is_dry=is_dry, is_quiet=is_quiet, log_format=log_format
                )
        if session is not None:
            code = _conclude(session, out, ending, is_quiet=is_quiet)
            if applies_advice and files is not None:
                rerun = partial(_run_files, ending=ending, is_dry=False, is_quiet=True)
                _apply_advice(files, session, rerun, is_quiet=is_quiet)
            if code:
                raise typer.Exit(code)


def _run_files(
    options: "RunOptions",
    ending: Ending,
    *,
    is_dry: bool,
    is_quiet: bool,
    other_seconds: float = 0.0,
) -> "Session | None":
    """Run files at full speed and write the record; None for a dry run."""
    from headrace.runs.file_run import Runner

    return execute(
        Runner,
        options,
        ending,
        opening="the source and the model",
        plan=_plan,
        with_progress=partial(_with_progress, is_quiet=is_quiet),
        is_dry=is_dry,
        is_quiet=is_quiet,
        other_seconds=other_seconds,
    )


def _conclude(session: "Session", out: Path, ending: Ending, *, is_quiet: bool) -> int:
    """Print the summary and the files of a run; return the exit code of `conclude`."""
    labels = [(_label(name), name) for name in session.outputs]
    lines = [f"{label}: {out / name}" for label, name in labels if label][-_MAX_FILES:]
    kept = f"completed work is kept in {out}"
    return conclude(session, lines, kept, ending.exit_code, is_quiet=is_quiet)


def _label(name: str) -> str | None:
    """Return the label of an output file; None: the summary omits it."""
    from headrace.report.folder import is_run_file

    if name in _FILE_LABELS:
        return _FILE_LABELS[name]
    return _FILE_LABELS.get(Path(name).suffix) if is_run_file(name) else _SINK_LABEL


def _plan(runner: "Runner") -> str:
    for note in runner.notes:
        print(f"headrace: {note}", file=sys.stderr)
    if runner.inputs.images:
        frames = f"{runner.frames_planned} of {len(runner.inputs.images)} images"
    else:
        names = [str(index.source) for index in runner.inputs.indexes]
        source = names[0] if len(names) == 1 else f"{len(names)} videos"
        frames = f"{runner.frames_planned} frames of {source}"
    return f"{frames} would be decoded"


def _with_progress(runner: "Runner", *, is_quiet: bool) -> "Session":
    """Run with a progress bar on stderr; return the session."""
    columns = bar_columns("frames", "{task.fields[rate]} frames/s")
    with progress_line(*columns, is_quiet=is_quiet) as progress:
        task = progress.add_task("running", total=runner.frames_planned, rate="?")

        def show(step: "Step") -> None:
            seconds = (step.started_ms + step.total_ms) / 1e3
            # Step 0 repeats where a run restarts with smaller batches.
            done = (progress.tasks[0].completed if step.step else 0) + step.frames
            # Measuring other settings takes seconds: see `measure_alternatives`.
            phase = "running" if done < runner.frames_planned else "measuring other settings after"
            progress.update(task, description=phase, completed=done, rate=f"{done / seconds:.0f}")

        return run_as_launched(runner, show)


def _apply_advice(
    options: "RunOptions",
    session: "Session",
    run: "Callable[[RunOptions], Session | None]",
    *,
    is_quiet: bool,
) -> None:
    """Run again with the change advised in `session`, and print the gain.

    Args:
        options: Options of the first run.
        session: Record of the first run.
        run: Runs with the given options, without output.
        is_quiet: Whether to print to stderr instead of stdout.
    """
    from headrace.runs.what_if import describe_gain, first_advised_change

    stream = sys.stderr if is_quiet else sys.stdout
    advised = first_advised_change(options, session)
    if advised is None:
        print("Tried no change: no option makes the advised change.", file=stream)
        return
    print(f"Trying {advised.change.words.partition(':')[0]} ...", file=stream, flush=True)
    after = run(advised.options)
    if after is not None:
        print(f"Tried {describe_gain(advised.change, session, after)}", file=stream)
        print(f"Its report: {advised.options.output.out / 'report.html'}", file=stream)
