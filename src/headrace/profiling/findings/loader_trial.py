"""Trial of an advised change to a DataLoader: the change to try, and its measured gain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.profiling.findings.finding import Change
from headrace.profiling.findings.loop_simulation import LoopLoad, loop_seconds
from headrace.profiling.findings.verdict import advised, find, find_too_short, is_busy
from headrace.profiling.number_format import three_digits
from headrace.profiling.number_format import whole_percent as percent
from headrace.profiling.session import Session

_SAME: Final = ("loop", "loader", "dataset", "batch_size")
"""Entries of a loop's configuration that identify the loop in the second run."""


_SHORTFALL: Final = 0.8
"""Min measured gain, as a share of the predicted one, that needs no explanation."""
_LONGER: Final = 1.1
"""Min time of a part, as a share of its time before, that explains a small gain."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A change to try in a profiled loop."""

    loop: Session
    """Session of the loop without the change."""
    change: Change

    def __str__(self) -> str:
        """`num_workers=2 at train.py:18`."""
        return f"{self.change.words} at {_location(self.loop)}"


def choose_trial(loops: Sequence[Session]) -> tuple[Trial | None, tuple[str, ...]]:
    """Return the first change that a trial can make, and why each change before it was refused.

    Args:
        loops: Sessions of the loops, the longest first.
    """
    refused = [] if loops else ["Nothing to try: no loop was profiled."]
    for loop in loops:
        changes = [finding.advice for finding in advised(find(loop)) if finding.advice]
        if not changes:
            refused.append(f"Nothing to try at {_location(loop)}: no change is advised.")
        for change in changes:
            trial = Trial(loop=loop, change=change)
            obstacle = _find_obstacle(trial)
            if obstacle is None:
                return trial, tuple(refused)
            refused.append(f"Not tried: {trial}, because {obstacle}.")
    return None, tuple(refused)


def _find_obstacle(trial: Trial) -> str | None:
    loader, options = trial.loop.loader, trial.change.options
    if loader is None or not options:
        return "no argument of a DataLoader makes this change"
    if options.get("num_workers") == 0 and loader.has_persistent_workers and loader.epochs > 1:
        return "the order of later epochs would differ without its persistent workers"
    if "num_workers" in options and trial.loop.provenance.configuration.get("is_iterable"):
        return "an IterableDataset may return other batches with another number of workers"
    return None


def describe_trial(trial: Trial, loops: Sequence[Session]) -> str:
    """Return `num_workers=2 at train.py:18: 1.90 times as fast (...); 2.1 times were predicted.`

    Args:
        trial: The change.
        loops: Sessions of the loops of the run with the change.
    """
    after = _find_changed(trial, loops)
    if after is None:
        return f"{trial}: the second run did not have this loop with this change."
    gain = f"{trial}: {_measure(trial, after)}; {trial.change.prediction}."
    return gain + _explain_shortfall(trial, after)


def _explain_shortfall(trial: Trial, after: Session) -> str:
    """Return the reasons for a gain far below the prediction; empty: none is known, or needed."""
    before, later = LoopLoad.of(trial.loop), LoopLoad.of(after)
    gain = trial.change.gain
    if not gain or "persistent_workers" in trial.change.options or not (before and later):
        return ""
    if before.total_ms >= _SHORTFALL * gain * later.total_ms:
        return ""
    times_ms = {
        "a batch": (before.batch_ms or 0.0, later.batch_ms or 0.0),
        "the rest of a step": (before.step_ms, later.step_ms),
    }
    reasons = [
        f"{part} takes {three_digits(after_ms)} ms, {three_digits(before_ms)} ms before"
        for part, (before_ms, after_ms) in times_ms.items()
        if after_ms > _LONGER * before_ms
    ]
    if after.others_cpu_share is not None and is_busy(after.others_cpu_share):
        used = percent(after.others_cpu_share)
        reasons.append(f"other programs used {used} of the CPU time in the second run")
    return f" Less than predicted: {'; '.join(reasons)}." if reasons else ""


def _find_changed(trial: Trial, loops: Sequence[Session]) -> Session | None:
    before = trial.loop.provenance.configuration
    wanted = {name: before.get(name) for name in _SAME} | dict(trial.change.options)
    for loop in loops:
        configuration = loop.provenance.configuration
        if all(configuration.get(name) == value for name, value in wanted.items()):
            return loop
    return None


def _measure(trial: Trial, after: Session) -> str:
    """Return the gain as the ratio of mean step times, with starts of epochs if they change."""
    sessions = (trial.loop, after)
    if "persistent_workers" in trial.change.options:
        means = [1e3 * loop_seconds(loop) / len(loop.steps) for loop in sessions if loop.steps]
        is_corrected, included = False, ", starts of epochs included"
    else:
        loads = [
            load for loop in sessions if not find_too_short(loop) and (load := LoopLoad.of(loop))
        ]
        means = [load.total_ms for load in loads]
        is_corrected, included = all(load.is_corrected for load in loads), ""
    if len(means) < len(sessions) or not all(means):
        return "the loops are too short to compare"
    how = ""
    if is_corrected:
        how = ", without waits for a core"
    elif any(is_busy(loop.others_cpu_share) for loop in sessions):
        how = ", as far as can be seen on a busy machine"
    before_ms, after_ms = means
    return (
        f"{before_ms / after_ms:.2f} times as fast{how} ({three_digits(before_ms)} ms a step "
        f"before, {three_digits(after_ms)} ms after{included})"
    )


def _location(loop: Session) -> str:
    return str(loop.provenance.configuration.get("loop", "?"))
