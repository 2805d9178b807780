"""`headrace run`: a model on videos, from the source to the report."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from headrace.cli import run_options as typed
from headrace.cli.stopping import ending_on_sigterm
from headrace.cli.trying import refuse_other_than_file, try_advice

if TYPE_CHECKING:
    from headrace.profiling.session import Session
    from headrace.profiling.steps import Step
    from headrace.runs.live.options import LiveOptions
    from headrace.runs.options import RunOptions
    from headrace.runs.run import Runner
    from headrace.sinks.web.options import WebOptions

_NAMES: Final = {
    ".mp4": "Annotated video",
    ".jsonl": "Predictions",
    ".html": "Report",
}
"""What is said of the files a reader opens, by their endings."""


def run(
    sources: typed.Sources,
    model_name: typed.ModelName = "mobilenet_v2",
    weights: typed.Weights = "DEFAULT",
    batch_size: typed.BatchSize = 16,
    prep_level: typed.Level = "medium",
    device: typed.Device = "cpu",
    threads: typed.Threads = None,
    max_steps: typed.MaxSteps = None,
    max_seconds: typed.MaxSeconds = None,
    stride: typed.Stride = 1,
    pace: typed.Pace = "auto",
    overload: typed.OverloadMode = "auto",
    max_staleness: typed.MaxStaleness = None,
    queue: typed.Queue = None,
    clip_len: typed.ClipLen = None,
    clip_stride: typed.ClipStride = 1,
    clip_hop: typed.ClipHop = None,
    wait_for_source: typed.WaitForSource = False,
    view: typed.View = "none",
    web_address: typed.WebAddress = "127.0.0.1",
    web_port: typed.WebPort = 8686,
    on_error: typed.OnError = "raise",
    out: typed.Out = Path("headrace_run"),
    video: typed.Video = True,
    try_advised: typed.Try = False,
    dry_run: typed.DryRun = False,
    json: typed.Json = False,
) -> None:
    """Run a model on videos: predictions, annotated video and report in one folder."""
    from headrace.runs.live.options import ClipOptions, FlowOptions, LiveOptions
    from headrace.runs.options import ComputeOptions, InputOptions, OutputOptions, RunOptions
    from headrace.sinks.web.options import WebOptions

    compute = ComputeOptions(
        model_name=model_name,
        weights=weights,
        batch_size=batch_size,
        prep_level=prep_level,
        device=device,
        threads=threads,
    )
    output = OutputOptions(out=out, video=video)
    flow = FlowOptions(
        pace=pace,
        overload=overload,
        max_staleness=max_staleness,
        queue=queue,
        wait_for_source=wait_for_source,
        max_seconds=max_seconds,
    )
    clips = ClipOptions(clip_len=clip_len, clip_stride=clip_stride, clip_hop=clip_hop)
    read = InputOptions(source=sources[0], stride=stride, max_steps=max_steps, on_error=on_error)
    plain = RunOptions(input=read, compute=compute, output=output)
    live = LiveOptions.of(plain, sources, flow=flow, clips=clips, view=view)
    web = WebOptions(address=web_address, port=web_port)
    _run_either(plain, live, web, is_dry=dry_run, is_quiet=json, is_trying=try_advised)


def _run_either(
    plain: "RunOptions",
    live: "LiveOptions",
    web: "WebOptions",
    *,
    is_dry: bool,
    is_quiet: bool,
    is_trying: bool,
) -> None:
    """One file at full speed by the run that is made for it, all else as it comes."""
    from headrace.cli.live_run import execute_live
    from headrace.runs.live.choice import plain_file

    with ending_on_sigterm() as ending:
        try:
            path = plain_file(live)
            if is_trying and path is None:
                refuse_other_than_file()
            if path is not None:
                named = replace(plain, input=replace(plain.input, source=path))
                session = _execute(named, is_dry=is_dry, is_quiet=is_quiet)
            else:
                session = execute_live(live, web, is_dry=is_dry, is_quiet=is_quiet)
        except KeyboardInterrupt:
            print("headrace: interrupted before the first frame", file=sys.stderr)
            raise typer.Exit(ending.exit_code) from None
        if session is not None:
            _conclude(session, plain.output.out, ending.exit_code, is_quiet=is_quiet)
            if is_trying:
                again = partial(_execute, is_dry=False, is_quiet=True)
                try_advice(named, session, again, is_quiet=is_quiet)


def _execute(options: "RunOptions", *, is_dry: bool, is_quiet: bool) -> "Session | None":
    from headrace.profiling.machine import describe_machine, process_seconds, versions
    from headrace.report.folder import write_run
    from headrace.report.text import render_setup
    from headrace.runs.run import Runner

    command = ("headrace", *sys.argv[1:])
    runner = Runner.prepare(options, command=command, imports_seconds=process_seconds())
    out = options.output.out
    if not is_quiet:
        setup = options.configuration()
        print(render_setup(machine=describe_machine(), versions=versions(), configuration=setup))
    if is_dry:
        print(
            f"Dry run: {runner.frames_planned} frames of {options.input.source} would be decoded; "
            f"results would go to {out}",
            file=sys.stderr if is_quiet else sys.stdout,
        )
        return None
    return write_run(_with_progress(runner, is_quiet=is_quiet), out)


def _conclude(session: "Session", out: Path, interrupted: int, *, is_quiet: bool) -> None:
    """Say how it went; end with the exit code that tells."""
    from headrace.report.text import render_text

    if is_quiet:
        print(session.model_dump_json())
    else:
        print(render_text(session))
        for name in session.outputs:
            if Path(name).suffix in _NAMES:
                print(f"{_NAMES[Path(name).suffix]}: {out / name}")
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


def _with_progress(runner: "Runner", *, is_quiet: bool) -> "Session":
    """Run with a progress bar on a terminal's stderr; return the session."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("frames"),
        TextColumn("{task.fields[rate]} frames/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=is_quiet) as progress:
        task = progress.add_task("running", total=runner.frames_planned, rate="?")

        def show(step: "Step") -> None:
            seconds = (step.started_ms + step.total_ms) / 1e3
            done = progress.tasks[0].completed + step.frames
            progress.update(task, completed=done, rate=f"{done / seconds:.0f}")

        return runner.run(show)
