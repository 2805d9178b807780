"""A run that belongs to a launch: waits for the others before it begins, and tells how it goes."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.profiling.session import Session
    from headrace.profiling.steps import Step
    from headrace.runs.live.runner import LiveRunner
    from headrace.runs.retrain.runner import RetrainRunner
    from headrace.runs.run import Runner

    AnyRunner = TypeVar("AnyRunner", Runner, LiveRunner, RetrainRunner)

_EVERY_MS: Final = 250.0
"""Of the run, between two words about its progress."""


def run_as_launched(runner: "AnyRunner", on_step: "Callable[[Step], None]") -> "Session":
    """Run at once; where a launch started this process, when all of its workers are ready."""
    from headrace.runs.launch.news import ADDRESS, began, progress, ready
    from headrace.runtime.rendezvous import Participant

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
