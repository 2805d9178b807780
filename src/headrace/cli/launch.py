"""`headrace launch`: several runs at once, from a YAML file."""

import json as json_format
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.cli.progress import is_silenced, waiting
from headrace.cli.signals import INTERRUPTED, NOTHING_RECORDED, TERMINATED, ending_on_sigterm

if TYPE_CHECKING:
    from headrace.runs.launch.launch_record import LaunchRecord
    from headrace.runs.launch.launching import WorkerEvent
    from headrace.runtime.child_process import CompletedChild

_LINE_SECONDS: Final = 10.0
"""Min seconds between two progress lines of a worker."""
_OUT = Path("headrace_launch")

EXAMPLE = """\
# headrace launch launch.yaml
#
# Several runs at once, each in its own process. All load first, then start together.
# Every option of `headrace run` is allowed, by the name of its flag: see `headrace run --help`.
# Paths are relative to the current folder.

out: headrace_launch      # output folder: a subfolder per worker, and a report that compares them

defaults:                 # options of every worker; a worker may override them
  weights: none           # random weights, no download; leave it out for trained weights
  batch_size: 4
  video: false            # no annotated video
  # nsys: true            # profile each worker with NVIDIA Nsight Systems, if installed

workers:                  # by a name of your choice
  small:
    source: test://?size=240x320&rate=30&seconds=4    # file, list of files, 0, rtsp://...
    model_name: squeezenet1_1
    threads: 1
  large:
    source: test://?size=480x640&rate=30&seconds=4&seed=1
    model_name: mobilenet_v3_large
    prep_level: simple
    threads: 1
"""


def launch(
    config: Annotated[
        Path | None, typer.Argument(help="YAML file that lists the workers; see --example.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Output folder; by default the one in the file.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check all options and files; run nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print only the record, as JSON.")] = False,
    example: Annotated[
        bool, typer.Option("--example", help="Print a complete example file and exit.")
    ] = False,
) -> None:
    """Run several models at once, each in its own process, and compare them."""
    if example:
        print(EXAMPLE, end="")
        return
    if config is None:
        raise typer.BadParameter("give a YAML file, or --example to print one", param_hint="CONFIG")
    from headrace.cli.launch_file import RunVocabulary, read_config
    from headrace.cli.run import run
    from headrace.runs.launch.launching import Launch

    launch_config = read_config(config, RunVocabulary(run))
    folder = out or (Path(launch_config.out) if launch_config.out else _OUT)
    with ending_on_sigterm() as ending:
        with _Screen([worker.name for worker in launch_config.workers], is_quiet=json) as screen:
            launched = Launch(
                config=launch_config,
                out=folder,
                program=(sys.executable, "-P", "-m", "headrace", "run"),
                environment=dict(os.environ),
                command=("headrace", *sys.argv[1:]),
                on_event=screen.show_event,
                on_start=screen.show_start,
                on_end=screen.show_end,
            )
            launched.check()
            record = launched.run(is_dry=dry_run)
        _conclude(record, folder, ending.exit_code, is_dry=dry_run, is_quiet=json)


def _conclude(
    record: "LaunchRecord", folder: Path, interrupted: int, *, is_dry: bool, is_quiet: bool
) -> None:
    """Write and print the record; exit with the code of the outcome."""
    from headrace.profiling.session import NOT_ALL
    from headrace.report.launch_page import RECORD, REPORT, TABLE, render_launch_text, write_launch
    from headrace.report.text import printable
    from headrace.runs.launch.launch_record import describe_exit, failed_workers

    bad = failed_workers(record.workers)
    has_results = any(worker.figures for worker in record.workers)
    if is_quiet:
        print(json_format.dumps(record.model_dump(mode="json")))
    elif is_dry and not bad:
        print(f"Dry run: all workers can start; results would be written to {folder}")
    elif has_results:
        print(render_launch_text(record))
    for worker in bad:
        print(f"headrace: worker {worker.name} {describe_exit(worker)}", file=sys.stderr)
        for line in worker.last_lines:
            print(f"  {printable(line)}", file=sys.stderr)
    if has_results:
        # Last, so that the results are printed even on a full disk.
        write_launch(record, folder)
        if not is_quiet:
            print(f"Report: {folder / REPORT}\nTable: {folder / TABLE}\nRecord: {folder / RECORD}")
    if any(worker.outcome == "interrupted" for worker in record.workers):
        text = f"headrace: interrupted; completed work is kept in {folder}"
        print(text if has_results else NOTHING_RECORDED, file=sys.stderr)
        raise typer.Exit(interrupted)
    if bad:
        raise typer.Exit(1)
    partial = [worker.name for worker in record.workers if worker.exit_code == NOT_ALL]
    if partial:
        print(f"headrace: incomplete results of {', '.join(partial)}", file=sys.stderr)
        raise typer.Exit(NOT_ALL)


class _Screen:
    """State of each worker on stderr: `with _Screen(names) as screen: ...`."""

    def __init__(self, names: list[str], *, is_quiet: bool) -> None:
        """Prepare the screen.

        Args:
            names: Names of the workers.
            is_quiet: Print nothing.
        """
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._is_quiet = is_quiet = is_quiet or is_silenced()
        self._is_live = console.is_terminal and not is_quiet
        columns = (
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[state]}", markup=False),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, disable=not self._is_live)
        self._tasks: dict[str, Any] = {
            name: self._progress.add_task(name, total=1, state="loading") for name in names
        }
        self._loading = ExitStack()
        self._last_line_seconds: dict[str, float] = dict.fromkeys(names, 0.0)

    def show_event(self, event: "WorkerEvent") -> None:
        """Show an event of a worker."""
        if event.state == "ready":
            self._show(event.worker, "ready, waiting for the others", is_line_due=True)
        elif event.frames:
            rate = f", {event.frames / event.seconds:.1f} frames/s" if event.seconds else ""
            is_due = event.seconds >= self._last_line_seconds[event.worker] + _LINE_SECONDS
            if is_due:
                self._last_line_seconds[event.worker] = event.seconds
            self._show(event.worker, f"{event.frames:,} frames{rate}", is_line_due=is_due)

    def show_start(self) -> None:
        """Show the common start."""
        self._loading.close()
        if not self._is_quiet and not self._is_live:
            print("all workers are ready and start", file=sys.stderr, flush=True)

    def show_end(self, ending: "CompletedChild") -> None:
        """Show the end of a worker."""
        from headrace.profiling.session import NOT_ALL
        from headrace.runs.launch.launch_record import killed_words

        code = ending.exit_code
        state = "done" if code in (0, NOT_ALL) else f"ended with exit code {code}"
        if code in (INTERRUPTED, TERMINATED):
            state = "stopped"
        if code is None or code < 0:
            state = "cannot be started" if code is None else killed_words(code)
        self._progress.update(self._tasks[ending.name], completed=1)
        self._show(ending.name, state, is_line_due=True)

    def _show(self, name: str, state: str, *, is_line_due: bool) -> None:
        from headrace.report.text import printable

        state = printable(state)
        if self._is_live:
            self._progress.update(self._tasks[name], state=state)
        elif is_line_due and not self._is_quiet:
            print(f"{name}: {state}", file=sys.stderr, flush=True)

    def __enter__(self) -> "_Screen":
        self._progress.start()
        if not self._is_live:
            self._loading.enter_context(waiting("loading the workers", is_quiet=self._is_quiet))
        return self

    def __exit__(self, *_: object) -> None:
        self._loading.close()
        self._progress.stop()
