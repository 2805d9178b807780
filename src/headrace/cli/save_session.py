"""Execution of a prepared run by any command: progress, record, summary, exit code.

A worker of a launch waits for the other workers and sends its progress.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import typer

from headrace.cli.signals import NOTHING_RECORDED, Ending
from headrace.errors import ConfigError
from headrace.runtime.child_spec import LAUNCH_VARIABLE

if TYPE_CHECKING:
    from headrace.profiling.session import Session
    from headrace.profiling.steps import Step
    from headrace.runs.file_run import Runner
    from headrace.runs.live.live_session import LiveRunner
    from headrace.runs.retrain.retrain_session import RetrainRunner

    BaseRunner = TypeVar("BaseRunner", Runner, LiveRunner, RetrainRunner)


_PROGRESS_MS: Final = 250.0
"""Time of a run between two progress messages."""


def execute(
    runner: "BaseRunner",
    ending: Ending,
    *,
    plan: Callable[["BaseRunner"], str],
    with_progress: Callable[["BaseRunner"], "Session"],
    is_dry: bool,
    is_quiet: bool,
) -> "Session | None":
    """Run and write the record; for a dry run, print the plan and return None.

    Args:
        runner: The prepared run.
        ending: Signal state of the command.
        plan: Returns the text of a dry run.
        with_progress: Runs with a progress display.
        is_dry: Whether to print the plan alone.
        is_quiet: Whether the output is JSON alone.

    Raises:
        HeadraceError: the results cannot be written.
    """
    from headrace.profiling.machine import describe_machine, versions
    from headrace.report.text import render_setup

    if not is_quiet and not is_launched():
        setup = runner.configuration()
        print(render_setup(machine=describe_machine(), versions=versions(), configuration=setup))
    out = runner.out
    if is_dry:
        stream = sys.stderr if is_quiet else sys.stdout
        print(f"Dry run: {plan(runner)}; results would go to {out}", file=stream)
        return None
    ending.begin()
    ending.is_held = True
    runner = replace(runner, on_start=ending.release)
    return keep(with_progress(runner), out, is_quiet=is_quiet)


@contextmanager
def saying_when_interrupted(ending: Ending, out: Path) -> Iterator[None]:
    """Exit after a Ctrl-C that leaves no record, with a message."""
    try:
        yield
    except KeyboardInterrupt:
        words = NOTHING_RECORDED
        if ending.has_begun:
            words = (
                f"headrace: interrupted while the record was written; the files so far are in {out}"
            )
        print(words, file=sys.stderr)
        raise typer.Exit(ending.exit_code) from None


def conclude(
    session: "Session", lines: Sequence[str], kept: str, interrupted: int, *, is_quiet: bool
) -> None:
    """Print the summary of a session and `lines`; exit with the code of its outcome.

    Args:
        session: Record of the run.
        lines: Further lines, such as the paths of files.
        kept: Remaining results of a run that did not complete.
        interrupted: Exit code of an interrupted command.
        is_quiet: Print the session as JSON alone.
    """
    from headrace.report.text import render_text

    if is_quiet:
        print(session.model_dump_json())
    else:
        print("\n".join([render_text(session), *lines]))
    if session.outcome == "interrupted":
        print(f"headrace: interrupted; {kept}", file=sys.stderr)
        raise typer.Exit(interrupted)
    failures = [event.words for event in session.events if event.kind == "failed"]
    reason = failures[0] if failures else None
    if session.outcome == "failed":
        reason = session.error
    if reason is not None:
        print(f"headrace: {reason}; {kept}", file=sys.stderr)
        raise typer.Exit(1)


def keep(session: "Session", out: Path, *, is_quiet: bool) -> "Session":
    """Write the folder of a run; return the session with the names of its files.

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
        for words in (session_error, error):
            if words is not None:
                print(f"headrace: {words}", file=sys.stderr)
        raise typer.Exit(1) from error


def is_launched() -> bool:
    """Return whether a launch started this process; its output has no terminal."""
    return LAUNCH_VARIABLE in os.environ


def run_as_launched(
    runner: "BaseRunner", on_step: "Callable[[Step], None]", out: Path
) -> "Session":
    """Run; as a worker of a launch, after all workers are ready.

    Checkpoints of the record are written to the folder `out`.
    """
    from headrace.report.folder import write_checkpoint
    from headrace.runs.launch.launching import (
        progress_message,
        ready_message,
        start_message,
    )
    from headrace.runtime.rank_processes import Participant

    runner = replace(runner, on_record=partial(write_checkpoint, folder=out))
    address = os.environ.get(LAUNCH_VARIABLE)
    if not address:
        return runner.run(on_step)
    worker = Participant(address)
    frames, sent_ms = 0, 0.0

    def wait() -> None:
        runner.on_start()
        worker.send(ready_message(os.getpid()))
        worker.send(start_message(worker.wait()))

    def report(step: "Step") -> None:
        nonlocal frames, sent_ms
        if step.step == 0:  # also after a restart with smaller batches
            frames, sent_ms = 0, 0.0
        frames += step.frames
        if step.ended_ms >= sent_ms + _PROGRESS_MS:
            sent_ms = step.ended_ms
            with suppress(ConfigError):  # the launch may have ended; the run continues
                worker.send(progress_message(frames, step.ended_ms / 1e3))
        on_step(step)

    return replace(runner, before_start=wait).run(report)
