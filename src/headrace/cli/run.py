"""`headrace run`: inference on videos, cameras and streams."""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from headrace.cli.progress import bar_columns, print_above, progress_line, waiting
from headrace.cli.retrain_run import with_mode
from headrace.cli.run_flags import PARAMETERS, files_among, run_options, web_options
from headrace.cli.save_session import conclude, execute, print_interruption, run_as_launched
from headrace.cli.signals import Ending, ending_at_once, ending_on_sigterm
from headrace.cli.sources import check_videos
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.profiling.session import Session, Step
    from headrace.runs.file_run import Runner
    from headrace.runs.live.live_session import LiveRunner
    from headrace.runs.live.status_board import Notice
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
_RATE_STEPS: Final = 60
"""Latest steps that the rate of the progress line of a live run averages over."""


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
    is_quiet = typed["json"]
    has_no_lines = is_quiet or typed.get("log_format") == "json"
    with ending_at_once(), waiting("loading PyTorch", is_quiet=has_no_lines):
        for module in _SLOW_IMPORTS:
            import_module(module)
    from headrace.runs.model_setup import with_task

    if options.marks.trace:
        # Silences the start and end messages of PyTorch's profiler on stderr.
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    out, applies_advice = options.output.out, typed.get("apply_advice", False)
    with ending_on_sigterm() as ending:
        with print_interruption(ending, out):
            options = with_task(options)
            files = as_files(options)
            if files is not None:
                session = _run_files(files, ending, typed, other_seconds=other_seconds)
            elif applies_advice:
                raise ConfigError(
                    "--apply-advice compares two runs, which needs a video file at full speed; "
                    "give one file, without --pace realtime"
                )
            else:
                session = _run_live(options, web, ending, typed)
        if session is not None:
            code = _conclude(session, out, ending, is_quiet=is_quiet)
            if applies_advice and files is not None:
                _apply_advice(files, session, ending, is_quiet=is_quiet)
            if code:
                raise typer.Exit(code)


def _run_files(
    options: "RunOptions", ending: Ending, typed: Mapping[str, Any], *, other_seconds: float = 0.0
) -> "Session | None":
    """Run files at full speed and write the record; None for a dry run."""
    from headrace.runs.file_run import Runner

    return execute(
        Runner,
        options,
        ending,
        typed,
        opening="the source and the model",
        plan=_plan,
        with_progress=partial(_with_progress, is_quiet=typed["json"]),
        other_seconds=other_seconds,
    )


def _conclude(session: "Session", out: Path, ending: Ending, *, is_quiet: bool) -> int:
    """Print the summary and the files of a run; return the exit code of `conclude`."""
    labels = [(_label(name), name) for name in session.outputs]
    lines = [f"{label}: {out / name}" for label, name in labels if label][-_MAX_FILES:]
    has_results = any(label not in (None, "Report") for label, _ in labels)
    kept = f"completed work is kept in {out}" if has_results else ""
    if not session.outputs:
        kept = f"the files of an earlier run in {out} are unchanged"
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
            progress.update(task, completed=done, rate=f"{done / seconds:.0f}")

        def show_probe(setting: str) -> None:
            progress.update(task, description=f"measuring {setting}, after")

        return run_as_launched(replace(runner, on_probe=show_probe), show)


def _apply_advice(
    options: "RunOptions", session: "Session", ending: Ending, *, is_quiet: bool
) -> None:
    """Run again with the change advised in `session`, without output, and print the gain.

    Args:
        options: Options of the first run.
        session: Record of the first run.
        ending: Signal state of the command.
        is_quiet: Whether to print to stderr instead of stdout.
    """
    from headrace.runs.what_if import describe_gain, first_advised_change

    stream = sys.stderr if is_quiet else sys.stdout
    advised = first_advised_change(options, session)
    if advised is None:
        print("Tried no change: no option makes the advised change.", file=stream)
        return
    change, changed = advised
    print(f"Trying {change.words.partition(':')[0]} ...", file=stream, flush=True)
    after = _run_files(changed, ending, {"dry_run": False, "json": True})
    if after is not None:
        print(f"Tried {describe_gain(change, session, after)}", file=stream)
        print(f"Its report: {changed.output.out / 'report.html'}", file=stream)


def _run_live(
    options: "RunOptions", web: "WebOptions | None", ending: Ending, typed: Mapping[str, Any]
) -> "Session | None":
    """Run live sources and write the record; None for a dry run."""
    from headrace.runs.live.live_session import LiveRunner

    def run(runner: LiveRunner) -> "Session":
        with _with_view(runner, web, is_quiet=typed["json"]) as viewed:
            return _with_events(viewed, typed)

    return execute(
        LiveRunner,
        options,
        ending,
        typed,
        plan=lambda runner: f"{', '.join(runner.names)} would be read",
        with_progress=run,
    )


@contextmanager
def _with_view(
    runner: "LiveRunner", web: "WebOptions | None", *, is_quiet: bool
) -> "Iterator[LiveRunner]":
    """Yield the runner with its window or web page, which closes after the block."""
    from headrace.sinks.web.open_page import open_web_view
    from headrace.sinks.window import WindowView

    names, board = runner.names, runner.new_board()
    if runner.options.flow.view == "window":
        yield replace(runner, sinks=(WindowView(board.title, names),))
    elif web is not None:
        with open_web_view(web, board.status, names) as page:
            label = "Watch it at" if web.with_page else "Metrics at"
            hint = "" if web.token is None else ", with ?token= and your token"
            print(
                f"{label} {page.url}{hint}", file=sys.stderr if is_quiet else sys.stdout, flush=True
            )
            # Without a page no browser requests images.
            sinks = (page,) if web.with_page else ()
            yield replace(runner, sinks=sinks, board=board)
    else:
        yield runner


def _with_events(runner: "LiveRunner", typed: Mapping[str, Any]) -> "Session":
    """Run with one line per event on stderr, and a progress line on a terminal."""
    from rich.progress import TimeElapsedColumn

    recent: deque[Step] = deque(maxlen=_RATE_STEPS)
    frames = 0
    columns = ("{task.description}", TimeElapsedColumn())
    is_json = typed.get("log_format") == "json"
    with progress_line(*columns, is_quiet=typed["json"] or is_json) as progress:
        task = progress.add_task("waiting for the first frame", total=None)

        def show(step: "Step") -> None:
            nonlocal frames
            frames += step.frames
            recent.append(step)
            progress.update(task, description=progress_text(frames, recent))

        def print_notice(notice: "Notice") -> None:
            if notice.event in ("stalled", "disconnected"):
                progress.update(task, description=waiting_text(frames, notice))
            print_above(progress, notice.json() if is_json else f"headrace: {notice.text()}")

        return run_as_launched(replace(runner, on_notice=print_notice), show)


def progress_text(frames: int, recent: "Sequence[Step]") -> str:
    """Return `1,234 frames, 29.9 frames/s, latency 34 ms`."""
    first, *others = recent
    last = recent[-1]
    seconds = (last.ended_ms - first.ended_ms) / 1e3
    # Steps of a live run have different numbers of frames.
    rate = f", {sum(s.frames for s in others) / seconds:.1f} frames/s" if seconds > 0 else ""
    latency = ""
    if last.arrived_ms is not None:
        latency = f", latency {last.ended_ms - last.arrived_ms:.0f} ms"
    return f"{frames:,} frames{rate}{latency}"


def waiting_text(frames: int, notice: "Notice") -> str:
    """Return `1,234 frames, waiting for rtsp://door/live since 12:00:07Z`."""
    return f"{frames:,} frames, waiting for {notice.source} since {notice.time:%H:%M:%SZ}"
