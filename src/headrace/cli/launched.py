"""A run whose record is kept as it goes; a worker of a launch waits for the others, and reports."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.errors import ConfigError
from headrace.runs.launch.launching import ADDRESS

if TYPE_CHECKING:
    from headrace.profiling.session import Session
    from headrace.profiling.steps import Step
    from headrace.runs.live.runner import LiveRunner
    from headrace.runs.retrain.runner import RetrainRunner
    from headrace.runs.run import Runner

    AnyRunner = TypeVar("AnyRunner", Runner, LiveRunner, RetrainRunner)

_EVERY_MS: Final = 250.0
"""Of the run, between two words about its progress."""


def is_launched() -> bool:
    """Return whether a launch started this process, whose output goes to nobody's screen."""
    return ADDRESS in os.environ


def run_as_launched(runner: "AnyRunner", on_step: "Callable[[Step], None]", out: Path) -> "Session":
    """Run at once; where a launch started this process, when all of its workers are ready.

    The record so far is kept in the folder `out`.
    """
    from headrace.report.folder import write_checkpoint
    from headrace.runs.launch.launching import began, progress, ready
    from headrace.runtime.rendezvous import Participant

    runner = replace(runner, on_record=partial(write_checkpoint, folder=out))
    address = os.environ.get(ADDRESS)
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
