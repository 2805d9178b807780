"""Other settings of a run: measured after it, or made as its findings advise."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from headrace.profiling.findings.advice import LIGHTER_LEVEL
from headrace.profiling.findings.finding import Change
from headrace.profiling.findings.verdict import find, is_busy
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import times
from headrace.profiling.provenance import Scalar
from headrace.profiling.run_records import Alternative
from headrace.profiling.session import Session
from headrace.runs.run_options import RunOptions
from headrace.runtime.clock import Clock

Rehearse = Callable[[Mapping[str, Scalar], int], float | None]
"""Runs so many steps with options changed; milliseconds per frame once frames flowed, None where it
was interrupted, failed, or too short to tell."""

_LARGEST_BATCH: Final = 64
_LEAST_SECONDS, _MOST_SECONDS = 3.0, 8.0
_SHARE, _LARGEST_SHARE = 0.1, 0.3
"""Of the time of the run; the larger one where nothing could be tried in the other."""
_FRAMES_SHARE: Final = 0.7
"""Of the budget, what frames may take: stages start and end as well."""
_FEWEST_STEPS: Final = 4
"""Of a rehearsal: the first ones fill the stages."""


@dataclass(frozen=True)
class Setting:
    """Another setting that is open to a run."""

    option: str
    """As typed."""
    options: Mapping[str, Scalar]


def with_alternatives(
    session: Session, rehearse: Rehearse, *, frames: int, is_fixed: bool, clock: Clock
) -> Session:
    """Return the session with the settings tried that may cure what bound it on the CPU.

    A stage by itself would tell too much or too little: stages share the cores, and a model of many
    small operations waits for each of its threads to get one. Cost: a tenth of the time the run
    took (where that is too little for one setting, three tenths), but three seconds at least, and
    eight at most; nothing where a GPU runs the model.

    Args:
        session: Of a run.
        rehearse: Runs it for a moment with other options.
        frames: That its videos have.
        is_fixed: Its batch size and threads cannot be changed: the model is compiled for them.
        clock: What measures.
    """
    rate = Metrics.of(session).fps_mean
    if session.outcome != "complete" or session.setup.device != "cpu" or not rate:
        return session
    wall, one = session.wall_seconds, 3 * _FEWEST_STEPS * session.setup.batch_size / rate
    enough = min(one / _FRAMES_SHARE, _LARGEST_SHARE * wall)
    seconds = min(_MOST_SECONDS, max(_LEAST_SECONDS, _SHARE * wall, enough))
    fixed = {"batch_size", "threads"} if is_fixed else set()
    open_to_it = [each for each in settings(session) if not fixed & each.options.keys()]
    turns = _Rehearsals(rehearse, session.setup.batch_size, 1e3 / rate, frames, clock)
    found = tuple(_tried(open_to_it, turns, seconds))
    return session.model_copy(update={"alternatives": found})


def settings(session: Session) -> Iterator[Setting]:
    """Yield the settings that may cure what bound a session, the most promising first."""
    setup = session.setup
    bound = {each for finding in find(session) for each in finding.bound_by}
    if "model" in bound:
        for factor in (8, 2):
            if setup.batch_size * factor <= _LARGEST_BATCH:
                yield _batches(setup.batch_size * factor)
        if (setup.threads or 1) > 1:
            yield Setting("--threads 1", {"threads": 1})
        if setup.batch_size >= _LARGEST_BATCH // 2:
            yield _batches(setup.batch_size // 4)
    lighter = LIGHTER_LEVEL.get(setup.prep_level or "")
    if "preprocess" in bound and lighter:
        yield Setting(f"--prep-level {lighter}", {"prep_level": lighter})
    if "sink" in bound and setup.draws_video:
        yield Setting("--no-video", {"video": False})


def _batches(size: int) -> Setting:
    return Setting(f"--batch-size {size}", {"batch_size": size})


@dataclass(frozen=True)
class _Rehearsals:
    """What is run for a moment, and how long that takes."""

    rehearse: Rehearse
    batch_size: int
    ms_per_frame: float
    frames: int
    clock: Clock

    def steps(self, options: Mapping[str, Scalar], seconds: float) -> int:
        """Return the steps of a rehearsal; 0 where the videos have too few frames for one."""
        size = int(options.get("batch_size") or self.batch_size)
        wanted = max(_FEWEST_STEPS, math.ceil(1e3 * seconds / self.ms_per_frame / size))
        steps = min(wanted, self.frames // size)
        return steps if steps >= _FEWEST_STEPS else 0

    def seconds(self, options: Mapping[str, Scalar], steps: int) -> float:
        """Return how long it will take, were it no faster than the run."""
        size = int(options.get("batch_size") or self.batch_size)
        return steps * size * self.ms_per_frame / 1e3


def _tried(
    settings: list[Setting], turns: _Rehearsals, budget_seconds: float
) -> Iterator[Alternative]:
    """Yield what fits into the budget, each between two rehearsals of the setting as it was."""
    stop_ns = turns.clock.now_ns() + round(budget_seconds * 1e9)
    each_seconds = _FRAMES_SHARE * budget_seconds / (2 * len(settings) + 1)
    base = turns.steps({}, each_seconds)
    before = turns.rehearse({}, base) if settings and base else None
    for setting in settings:
        steps = turns.steps(setting.options, each_seconds)
        needed = turns.seconds(setting.options, steps) + turns.seconds({}, base)
        if before is None or turns.clock.now_ns() + needed * 1e9 > stop_ns:
            continue
        other = turns.rehearse(setting.options, steps) if steps else None
        after = turns.rehearse({}, base) if other else None
        if other and after:
            yield Alternative(
                option=setting.option,
                options=dict(setting.options),
                ms_per_frame=other,
                baseline_ms_per_frame=(before + after) / 2,
            )
        before = after or before


FOLDER: Final = "tried"
"""Of the run with the change, in the folder of the run before it."""


@dataclass(frozen=True, kw_only=True)
class AdvisedChange:
    """A change of options that a run advises."""

    change: Change
    options: RunOptions
    """Of the run before, with the change; results go to `FOLDER` in its folder."""


def trial_of(options: RunOptions, session: Session) -> AdvisedChange | None:
    """Return the first change advised that options can make; None where there is none.

    Another model is not tried with a checkpoint, which would not fit.
    """
    has_checkpoint = options.compute.weights not in ("DEFAULT", "none")
    for finding in find(session):
        change = finding.advice
        if change is None or not change.options:
            continue
        if "model_name" in change.options and has_checkpoint:
            continue
        return AdvisedChange(
            change=change,
            options=changed_options(options, change.options, options.output.out / FOLDER),
        )
    return None


def measured_gain(before: Session, after: Session) -> float | None:
    """Return how many times as fast the second was, by frames per second once frames flowed.

    None where one of them is too short to tell, or did not come to its end.
    """
    rates = [Metrics.of(session).fps_mean for session in (before, after)]
    is_whole = before.outcome == after.outcome == "complete"
    if not is_whole or rates[0] is None or rates[1] is None:
        return None
    return rates[1] / rates[0]


def in_words(trial: AdvisedChange, before: Session, after: Session) -> str:
    """`--no-video: 1.9 times as fast; 2.1 times were predicted.`"""
    measured = measured_gain(before, after)
    change = trial.change
    what = change.words.partition(":")[0]
    came = "too short to tell what it brought" if measured is None else _times(measured)
    if measured and any(is_busy(each.others_cpu_share) for each in (before, after)):
        came = f"cannot be told, for other programs took the processor; as measured, {came}"
    if change.gain is not None:
        predicted = f"{times(change.gain)} were predicted"
    elif change.most is not None:
        predicted = f"less than {times(change.most)} was the bound, and no gain predicted"
    else:
        predicted = "nothing was predicted"
    return f"{what}: {came}; {predicted}."


def _times(gain: float) -> str:
    return f"{gain:.2f} times as fast"


def changed_options(options: RunOptions, changed: Mapping[str, Scalar], out: Path) -> RunOptions:
    """Return the options of a run with some changed, by their names, and its results in `out`.

    Sinks of the user's own, which would get everything again, are left out.
    """
    parts: dict[str, Any] = {
        part: _part(getattr(options, part), changed) for part in ("input", "compute", "output")
    }
    parts["output"] = replace(parts["output"], out=out, sinks=())
    return replace(options, **parts)


def _part(part: Any, changed: Mapping[str, Scalar]) -> Any:
    names = {field.name for field in fields(part)}
    if "batch_size" in names & changed.keys():
        # What is advised is tried, not fitted anew.
        part = replace(part, execution=replace(part.execution, fit_batch=False))
    return replace(part, **{name: value for name, value in changed.items() if name in names})
