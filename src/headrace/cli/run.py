"""`headrace run`: a classifier on a video, from file to report."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer


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
    max_steps: Annotated[int | None, typer.Option(min=1, help="Stop after so many steps.")] = None,
    stride: Annotated[int, typer.Option(min=1, help="Every n-th frame; 1 means all.")] = 1,
    on_error: Annotated[
        Literal["raise", "skip"],
        typer.Option(help="Damaged frames end the run, or are left out and listed."),
    ] = "raise",
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("headrace_run"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, run nothing.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the recorded session as JSON, nothing else.")
    ] = False,
) -> None:
    """Run a classifier on a video: annotated video, metrics and report in one folder."""
    from headrace.live.run import RunConfig, Runner, configuration
    from headrace.profiling.machine import describe_machine, versions
    from headrace.report.folder import write_run
    from headrace.report.text import render_setup, render_text

    config = RunConfig(
        source=source,
        model_name=model_name,
        weights=weights,
        batch_size=batch_size,
        prep_level=prep_level,
        device=device,
        max_steps=max_steps,
        stride=stride,
        on_error=on_error,
        out=out,
    )
    runner = Runner.prepare(config, command=("headrace", *sys.argv[1:]))
    if not json:
        print(
            render_setup(
                machine=describe_machine(),
                versions=versions(),
                configuration=configuration(config),
            )
        )
    if dry_run:
        print(
            f"Dry run: {runner.frames_planned} frames of {source} would be decoded; "
            f"results would go to {out}",
            file=sys.stderr if json else sys.stdout,
        )
        return
    session = write_run(_with_progress(runner, is_quiet=json), out)
    print(session.model_dump_json() if json else render_text(session))
    if not json:
        print(f"Annotated video: {out / 'annotated.mp4'}\nReport: {out / 'report.html'}")
    if session.outcome == "interrupted":
        print(f"headrace: interrupted; what was done is kept in {out}", file=sys.stderr)
        raise typer.Exit(130)
    if session.outcome == "failed":
        print(f"headrace: {session.error}; what was done is kept in {out}", file=sys.stderr)
        raise typer.Exit(1)


def _with_progress(runner, *, is_quiet: bool):  # type: ignore[no-untyped-def]
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

        def show(step) -> None:  # type: ignore[no-untyped-def]
            seconds = (step.started_ms + step.total_ms) / 1e3
            done = progress.tasks[0].completed + step.frames
            progress.update(task, completed=done, rate=f"{done / seconds:.0f}")

        return runner.run(show)
