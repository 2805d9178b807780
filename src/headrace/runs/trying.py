"""Making the change that a run's findings advise: its options, and what it then brought."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from headrace.profiling.findings.finding import Change
from headrace.profiling.findings.verdict import find, is_busy
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import times
from headrace.profiling.provenance import Scalar
from headrace.profiling.session import Session
from headrace.runs.options import RunOptions

FOLDER: Final = "tried"
"""Of the run with the change, in the folder of the run before it."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A change of options that a run advises."""

    change: Change
    options: RunOptions
    """Of the run before, with the change; results go to `FOLDER` in its folder."""


def trial_of(options: RunOptions, session: Session) -> Trial | None:
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
        return Trial(
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


def in_words(trial: Trial, before: Session, after: Session) -> str:
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
