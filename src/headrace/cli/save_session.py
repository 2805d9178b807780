"""Execution of a run by any command: preparation, progress, record, summary, exit code.

A worker of a launch waits for the other workers and sends its progress.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from headrace.cli.progress import is_launched, waiting
from headrace.cli.signals import NOTHING_RECORDED, Ending
from headrace.errors import ConfigError
from headrace.runtime.child_process import LAUNCH_VARIABLE

if TYPE_CHECKING:
    from headrace.profiling.session import Session, Step
    from headrace.runs.file_run import Runner
    from headrace.runs.live.live_session import LiveRunner
    from headrace.runs.retrain.retrain_session import RetrainRunner

    AnyRunner = TypeVar("AnyRunner", Runner, LiveRunner, RetrainRunner)


def execute(
    kind: "type[AnyRunner]",
    options: Any,
    ending: Ending,
    typed: Mapping[str, Any],
    *,
    opening: str = "",
    plan: Callable[["AnyRunner"], str],
    with_progress: Callable[["AnyRunner"], "Session"],
    other_seconds: float = 0.0,
) -> "Session | None":
    """Prepare and run, and write the record; for a dry run, print the plan and return None.

    Args:
        kind: Class of the run.
        options: Its options.
        ending: Signal state of the command.
        typed: Values of the command line: `dry_run` only prints the plan, `json` only JSON.
        opening: What the preparation opens, for a progress line; empty: no line.
        plan: Returns the text of a dry run.
        with_progress: Runs with a progress display.
        other_seconds: Seconds of this process before the call that were not imports.

    Raises:
        HeadraceError: the run cannot start, or its results cannot be written.
    """
    from headrace.profiling.machine import describe_machine, process_seconds, versions
    from headrace.report.folder import write_checkpoint
    from headrace.report.text import render_setup

    is_quiet, imports_seconds = typed["json"], process_seconds() - other_seconds
    command = ("headrace", *sys.argv[1:])
    with waiting(f"opening {opening}", is_quiet=is_quiet or not opening):
        runner = kind.prepare(options, command=command, imports_seconds=imports_seconds)
    if not is_quiet and not is_launched():
        setup = runner.configuration()
        print(render_setup(machine=describe_machine(), versions=versions(), configuration=setup))
    out = runner.out
    if typed["dry_run"]:
        stream = sys.stderr if is_quiet else sys.stdout
        print(f"Dry run: {plan(runner)}; results would be written to {out}", file=stream)
        return None
    ending.start()
    ending.is_deferred = True
    checkpoint = partial(write_checkpoint, folder=out)
    runner = replace(runner, on_start=ending.release, on_record=checkpoint)
    return keep(with_progress(runner), out, is_quiet=is_quiet)


def run_as_launched(runner: "AnyRunner", on_step: "Callable[[Step], None]") -> "Session":
    """Run; a worker of a launch waits until all workers are ready."""
    from headrace.runs.launch.launching import LaunchedWorker

    address = os.environ.get(LAUNCH_VARIABLE)
    if not address:
        return runner.run(on_step)
    worker = LaunchedWorker(address)

    def wait() -> None:
        runner.on_start()
        worker.wait()

    def report(step: "Step") -> None:
        worker.add(step)
        on_step(step)

    return replace(runner, before_start=wait).run(report)


@contextmanager
def print_interruption(ending: Ending, out: Path) -> Iterator[None]:
    """Turn a Ctrl-C that leaves no record into a message and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        message = NOTHING_RECORDED
        if ending.has_started:
            message = (
                f"headrace: interrupted while the record was written; the files so far are in {out}"
            )
        print(message, file=sys.stderr)
        raise typer.Exit(ending.exit_code) from None


def conclude(
    session: "Session", lines: Sequence[str], kept: str, interrupted: int, *, is_quiet: bool
) -> int:
    """Print the summary of a session and `lines`; return the exit code, 0 or `NOT_ALL`.

    Args:
        session: Record of the run.
        lines: Further lines, such as the paths of files.
        kept: Location of the partial results, for a run that did not complete; empty: none.
        interrupted: Exit code of an interrupted command.
        is_quiet: Whether to print only the session, as JSON.

    Raises:
        typer.Exit: the run did not complete.
    """
    from headrace.profiling.session import NOT_ALL
    from headrace.report.session_tables import lost_words
    from headrace.report.text import render_text
    from headrace.runs.run_inputs import LEFT_OUT

    if is_quiet:
        print(session.model_dump_json())
    else:
        print("\n".join([render_text(session), *lines]))
    left_out = [note for note in session.notes if note.startswith(LEFT_OUT)]
    lost = [loss for loss in session.lost if not loss.is_concealed]
    if lost:  # of files only: streams report lost frames as events
        left_out.append(f"{LEFT_OUT}{lost_words(session, lost)}, damaged")
    for note in left_out:
        print(f"headrace: {note}", file=sys.stderr)
    if session.outcome == "interrupted":
        print("; ".join(filter(None, ("headrace: interrupted", kept))), file=sys.stderr)
        raise typer.Exit(interrupted)
    reason = next((event.words for event in session.events if event.kind == "failed"), None)
    if session.outcome == "failed":
        reason = session.error
    if reason is not None:
        print("; ".join(filter(None, (f"headrace: {reason}", kept))), file=sys.stderr)
        raise typer.Exit(1)
    return NOT_ALL if left_out else 0


def keep(session: "Session", out: Path, *, is_quiet: bool) -> "Session":
    """Write the output folder of a run; return the session with the names of its files.

    Raises:
        typer.Exit: the folder cannot be written; the summary and the reason are printed.
    """
    from headrace.report.folder import write_run
    from headrace.report.text import render_text

    try:
        return write_run(session, out)
    except ConfigError as error:
        print(session.model_dump_json() if is_quiet else render_text(session))
        # An extraction prints its own error with its summary.
        session_error = None if session.kind == "extract" else session.error
        for message in (session_error, error):
            if message is not None:
                print(f"headrace: {message}", file=sys.stderr)
        raise typer.Exit(1) from error
