"""`headrace run`: a classifier on a video, from file to report."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

if TYPE_CHECKING:
    from headrace.profiling.session import Session
    from headrace.profiling.steps import Step
    from headrace.runs.options import RunOptions
    from headrace.runs.run import Runner

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
_NAMES: Final = {
    ".mp4": "Annotated video",
    ".jsonl": "Predictions",
    ".html": "Report",
}
"""What is said of the files a reader opens, by their endings."""


def run(
    source: Annotated[str, typer.Argument(help="Video file.")],
    model_name: Annotated[
        str, typer.Option(help="A classification model of torchvision.")
    ] = "mobilenet_v2",
    weights: Annotated[
        str, typer.Option(help="DEFAULT (torchvision's own), none (random), or a checkpoint file.")
    ] = "DEFAULT",
    batch_size: Annotated[int, typer.Option(min=1, help="Frames in a step.")] = 16,
    prep_level: Annotated[
        Literal["simple", "medium", "complex"],
        typer.Option(help="How much preprocessing is done; medium is the model's own."),
    ] = "medium",
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Where the model runs.")] = "cpu",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of one operation on the CPU.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Stop after so many steps.")] = None,
    stride: Annotated[int, typer.Option(min=1, help="Every n-th frame; 1 means all.")] = 1,
    on_error: Annotated[
        Literal["raise", "skip", "conceal"],
        typer.Option(
            help="Damaged frames end the run, are left out, or come as FFmpeg shows them; listed."
        ),
    ] = "raise",
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("headrace_run"),
    video: Annotated[
        bool, typer.Option("--video/--no-video", help="Write an annotated video or not.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, run nothing.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the recorded session as JSON, nothing else.")
    ] = False,
) -> None:
    """Run a classifier on a video: predictions, annotated video and report in one folder."""
    from headrace.runs.options import ComputeOptions, InputOptions, OutputOptions, RunOptions

    options = RunOptions(
        input=InputOptions(source=source, stride=stride, max_steps=max_steps, on_error=on_error),
        compute=ComputeOptions(
            model_name=model_name,
            weights=weights,
            batch_size=batch_size,
            prep_level=prep_level,
            device=device,
            threads=threads,
        ),
        output=OutputOptions(out=out, video=video),
    )
    _execute(options, is_dry=dry_run, is_quiet=json)


def _execute(options: "RunOptions", *, is_dry: bool, is_quiet: bool) -> None:
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
        return
    session = write_run(_with_progress(runner, is_quiet=is_quiet), out)
    _conclude(session, out, is_quiet=is_quiet)


def _conclude(session: "Session", out: Path, *, is_quiet: bool) -> None:
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
        raise typer.Exit(INTERRUPTED)
    if session.outcome == "failed":
        print(f"headrace: {session.error}; what was done is kept in {out}", file=sys.stderr)
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
