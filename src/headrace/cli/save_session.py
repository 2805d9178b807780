"""A run of a model, as every command does it: prepared, begun, recorded as it goes, concluded.

A worker of a launch waits for the others, and reports.
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
    from headrace.runs.live.live_session import LiveRunner
    from headrace.runs.retrain.retrain_session import RetrainRunner
    from headrace.runs.run import Runner

    BaseRunner = TypeVar("BaseRunner", Runner, LiveRunner, RetrainRunner)


_EVERY_MS: Final = 250.0
"""Of the run, between two words about its progress."""


def execute(
    runner: "BaseRunner",
    ending: Ending,
    *,
    plan: Callable[["BaseRunner"], str],
    with_progress: Callable[["BaseRunner"], "Session"],
    is_dry: bool,
    is_quiet: bool,
) -> "Session | None":
    """Run what is prepared and keep its record; of a dry run, print what would be done.

    Args:
        runner: What is run.
        ending: Whether the command was asked to end.
        plan: Returns what a dry run would do.
        with_progress: Runs it, and shows how far it is.
        is_dry: Run nothing.
        is_quiet: Print JSON alone, later.

    Raises:
        HeadraceError: its results cannot be written.
    """
    from headrace.profiling.machine import describe_machine, versions
    from headrace.report.text import render_setup

    if not is_quiet and not is_launched():
        setup = runner.configuration()
        print(render_setup(machine=describe_machine(), versions=versions(), configuration=setup))
    out = runner.out
    if is_dry:
        where = sys.stderr if is_quiet else sys.stdout
        print(f"Dry run: {plan(runner)}; results would go to {out}", file=where)
        return None
    ending.begin()
    return keep(with_progress(runner), out, is_quiet=is_quiet)


@contextmanager
def saying_when_interrupted(ending: Ending, out: Path) -> Iterator[None]:
    """End the command where Ctrl-C leaves no record, and say so."""
    try:
        yield
    except KeyboardInterrupt:
        words = NOTHING_RECORDED
        if ending.has_begun:
            words = (
                "headrace: interrupted while the record was written; what is there is kept in "
                f"{out}"
            )
        print(words, file=sys.stderr)
        raise typer.Exit(ending.exit_code) from None


def conclude(
    session: "Session", lines: Sequence[str], kept: str, interrupted: int, *, is_quiet: bool
) -> None:
    """Print how it went and `lines` after it; end with the exit code that tells.

    Args:
        session: What it came to.
        lines: What else there is to say of a run, such as where its files are.
        kept: What is left of a run that did not end well.
        interrupted: Exit code of a command that was asked to end.
        is_quiet: Print the session as JSON, nothing else.
    """
    from headrace.report.text import render_text

    if is_quiet:
        print(session.model_dump_json())
    else:
        print("\n".join([render_text(session), *lines]))
    if session.outcome == "interrupted":
        print(f"headrace: interrupted; {kept}", file=sys.stderr)
        raise typer.Exit(interrupted)
    lost = [event.words for event in session.events if event.kind == "failed"]
    why = session.error if session.outcome == "failed" else lost[0] if lost else None
    if why is not None:
        print(f"headrace: {why}; {kept}", file=sys.stderr)
        raise typer.Exit(1)


def keep(session: "Session", out: Path, *, is_quiet: bool) -> "Session":
    """Write the folder of a run; return the session with the names of its files.

    Raises:
        typer.Exit: it cannot be written, as the disk is full. What it came to and why was printed
            then.
    """
    from headrace.report.folder import write_run
    from headrace.report.text import render_text

    try:
        return write_run(session, out)
    except ConfigError as error:
        print(session.model_dump_json() if is_quiet else render_text(session))
        # An extraction names its own error with what is done, when it concludes.
        own_error = None if session.kind == "extract" else session.error
        for words in (own_error, error):
            if words is not None:
                print(f"headrace: {words}", file=sys.stderr)
        raise typer.Exit(1) from error


def is_launched() -> bool:
    """Return whether a launch started this process, whose output goes to nobody's screen."""
    return LAUNCH_VARIABLE in os.environ


def run_as_launched(
    runner: "BaseRunner", on_step: "Callable[[Step], None]", out: Path
) -> "Session":
    """Run at once; where a launch started this process, when all of its workers are ready.

    The record so far is kept in the folder `out`.
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
    frames, told_ms = 0, 0.0

    def wait() -> None:
        worker.send(ready_message(os.getpid()))
        worker.send(start_message(worker.wait()))

    def tell(step: "Step") -> None:
        nonlocal frames, told_ms
        if step.step == 0:  # also where a run that ran out of memory begins anew
            frames, told_ms = 0, 0.0
        frames += step.frames
        if step.ended_ms >= told_ms + _EVERY_MS:
            told_ms = step.ended_ms
            with suppress(ConfigError):  # nobody may listen any more; the run is what counts
                worker.send(progress_message(frames, step.ended_ms / 1e3))
        on_step(step)

    return replace(runner, before_start=wait).run(tell)
