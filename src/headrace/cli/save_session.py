"""A run whose record is kept as it goes and at its end; a worker of a launch waits and reports."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import typer

from headrace.errors import ConfigError
from headrace.runtime.child import LAUNCH_VARIABLE

if TYPE_CHECKING:
    from headrace.profiling.session import Session
    from headrace.profiling.steps import Step
    from headrace.runs.live.runner import LiveRunner
    from headrace.runs.retrain.runner import RetrainRunner
    from headrace.runs.run import Runner

    AnyRunner = TypeVar("AnyRunner", Runner, LiveRunner, RetrainRunner)


def keep(session: "Session", out: Path, *, is_quiet: bool) -> "Session":
    """Write the folder of a run; return the session with the names of its files.

    Raises:
        typer.Exit: it cannot be written, as the disk is full. What it came to and why was printed
            then.
    """
    from headrace.errors import ConfigError
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


_EVERY_MS: Final = 250.0
"""Of the run, between two words about its progress."""


def is_launched() -> bool:
    """Return whether a launch started this process, whose output goes to nobody's screen."""
    return LAUNCH_VARIABLE in os.environ


def run_as_launched(runner: "AnyRunner", on_step: "Callable[[Step], None]", out: Path) -> "Session":
    """Run at once; where a launch started this process, when all of its workers are ready.

    The record so far is kept in the folder `out`.
    """
    from headrace.report.folder import write_checkpoint
    from headrace.runs.launch.launching import began, progress, ready
    from headrace.runtime.rendezvous import Participant

    runner = replace(runner, on_record=partial(write_checkpoint, folder=out))
    address = os.environ.get(LAUNCH_VARIABLE)
    if not address:
        return runner.run(on_step)
    worker = Participant(address)
    frames, told_ms = 0, 0.0

    def wait() -> None:
        worker.tell(ready(os.getpid()))
        worker.tell(began(worker.wait()))

    def tell(step: "Step") -> None:
        nonlocal frames, told_ms
        if step.step == 0:  # also where a run that ran out of memory begins anew
            frames, told_ms = 0, 0.0
        frames += step.frames
        if step.ended_ms >= told_ms + _EVERY_MS:
            told_ms = step.ended_ms
            with suppress(ConfigError):  # nobody may listen any more; the run is what counts
                worker.tell(progress(frames, step.ended_ms / 1e3))
        on_step(step)

    return replace(runner, before_start=wait).run(tell)
