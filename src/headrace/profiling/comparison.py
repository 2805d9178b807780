"""Comparison of sessions with the first one; each side is one session, or its repeats."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Literal

import numpy as np
from pydantic import PositiveInt

from headrace.errors import ConfigError
from headrace.profiling.environment_diff import (
    EnvironmentDifference,
    disturbances,
    environment_differences,
    has_same_input,
    session_warnings,
    warnings,
)
from headrace.profiling.figures import (
    LEVEL,
    Figure,
    RunSpread,
    Unit,
    figures,
    relative,
    spread_within,
    widened,
)
from headrace.profiling.provenance import Provenance, Record, Text
from headrace.profiling.session import Session

_ROUNDING = 1e-12
"""Max absolute logarithm of a change that is a rounding error."""
Verdict = Literal["better", "worse", "no difference shown", "inconclusive", "not known"]


class Difference(Record):
    """One figure of two sides; a side is a session, or its repeats."""

    name: Text
    unit: Unit
    first: float
    """Value of the first side; of repeats, the geometric mean."""
    other: float
    """Value of the other side, in the same way."""
    change: float | None
    """Relative change from the first side: 0.1 is 10 % more. None if the first is 0."""
    interval: tuple[float, float] | None
    """95 % confidence interval of the change; None without repeats if the figure has one number per
    run, or too few steps."""
    verdict: Verdict
    """`no difference shown`: the interval contains 0; `inconclusive`: other programs used the
    CPU; `not known`: there is no interval."""
    is_of_run: bool = False
    """Whether the figure is one number per run; otherwise a missing interval means too few
    steps."""
    within: float | None = None
    """Relative standard error of the figure of one run, from its steps; the mean over all runs.
    None: not known."""
    between: float | None = None
    """Relative standard deviation from run to run, pooled over both sides; None without repeats."""
    least: tuple[float, float] | None = None
    """Smallest decrease (negative) and smallest increase that would have been shown; None without
    an interval."""


class RunComparison(Record):
    """Comparison of one side with the first side."""

    name: Text
    circumstances: tuple[EnvironmentDifference, ...]
    """Environment differences; read them first."""
    warnings: tuple[Text, ...]
    """Reasons to doubt the comparison, one sentence each."""
    disturbances: tuple[Text, ...] = ()
    """One sentence per session that other programs disturbed; with any, no difference is reported.
    Empty for repeats of sides that took turns: their spread includes it, and a warning names it."""
    differences: tuple[Difference, ...]


class Comparison(Record):
    """Comparison of several sides with the first one."""

    version: PositiveInt = 1
    """Version of the layout."""
    names: tuple[Text, ...]
    """Names of the sides, the first one first."""
    provenances: tuple[Provenance, ...]
    """Provenance of the first session of each side, in the same order."""
    runs: tuple[RunComparison, ...]
    """Comparison of each side after the first."""


def compare(*sides: Mapping[str, Session], any_input: bool = False, seed: int = 0) -> Comparison:
    """Return the differences of each side from the first side.

    Intervals of single sessions are from a bootstrap over their steps, widened by an assumed spread
    from run to run: 2 % for a step, more for its parts. If a side has repeats, intervals are by
    Student's t over the runs of both sides, with one spread for both.

    Args:
        sides: Name → session, one mapping for the repeats of each side; a single mapping is one
            side per session.
        any_input: Allow sessions with different inputs.
        seed: Seed of the draws; equal seeds give equal intervals.

    Raises:
        ConfigError: there are fewer than two sides; a side has no session; names are not unique; a
            session has too few steps; inputs differ; only one of two sessions is a profiled loop.
    """
    if len(sides) == 1:
        sides = tuple({name: session} for name, session in sides[0].items())
    sessions = {name: session for side in sides for name, session in side.items()}
    if len(sides) < 2:
        raise ConfigError(f"a comparison needs two runs or more, got {len(sessions)}")
    if not all(sides) or len(sessions) < sum(map(len, sides)):
        raise ConfigError("each side needs a run, and all runs need names of their own")
    (base, first), *others = sessions.items()
    for name, other in others:
        if (first.loader is None) != (other.loader is None):
            run, loop = (base, name) if first.loader is None else (name, base)
            raise ConfigError(
                f"{loop} is a profiled loop and {run} is a run, which have no figures in common; "
                "compare loops with loops, and runs with runs"
            )
    for name, session in sessions.items():
        if len(session.steps) - session.warmup_steps < 2:
            raise ConfigError(
                f"{name} has fewer than 2 steps after its warm-up, too few to compare; record a "
                "longer run"
            )
    for name, other in others:
        if has_same_input(first, other) is False and not any_input:
            raise ConfigError(
                f"{base} and {name} read different inputs, so their figures are not "
                "comparable; run both on one video, or give --any-input"
            )
    seeds = {name: seed + index for index, name in enumerate(sessions)}
    measured = [[figures(side[name], seeds[name]) for name in side] for side in sides]
    return Comparison(
        names=tuple(", ".join(side) for side in sides),
        provenances=tuple(next(iter(side.values())).provenance for side in sides),
        runs=tuple(
            _compare_sides((sides[0], side), (measured[0], of_side))
            for side, of_side in zip(sides[1:], measured[1:], strict=True)
        ),
    )


def _compare_sides(
    sides: tuple[Mapping[str, Session], Mapping[str, Session]],
    measured: tuple[Sequence[Mapping[str, Figure]], Sequence[Mapping[str, Figure]]],
) -> RunComparison:
    (first_name, first), (other_name, other) = (next(iter(side.items())) for side in sides)
    repeats = [side for side in sides if len(side) > 1]
    sessions = {**sides[0], **sides[1]}
    paces = {session.pace == "full_speed" for session in sessions.values()}
    compared = differences(*measured, with_source=len(paces) == 1)
    doubts = [*warnings(first, other, (first_name, other_name), over_steps=not repeats)]
    for side in repeats:
        later = dict([*side.items()][1:])
        doubts += [*session_warnings(later, over_steps=False), *_no_repeats(side)]
    disturbed = [*disturbances(sessions)]
    takes_turns = bool(repeats) and _takes_turns(*sides)
    if takes_turns and disturbed:
        doubts.append(
            f"Other programs used the CPU during {len(disturbed)} of {len(sessions)} runs. The "
            "spread from run to run includes it."
        )
    elif disturbed:
        compared = tuple(
            difference.model_copy(update={"verdict": "inconclusive"})
            if difference.interval
            else difference
            for difference in compared
        )
    return RunComparison(
        name=", ".join(sides[1]),
        circumstances=environment_differences(first, other),
        warnings=tuple(doubts),
        disturbances=() if takes_turns else tuple(disturbed),
        differences=compared,
    )


def _takes_turns(first: Mapping[str, Session], other: Mapping[str, Session]) -> bool:
    """Return whether neither side was complete before the other side began."""
    a, b = ([run.provenance.created for run in side.values()] for side in (first, other))
    return max(a) >= min(b) and max(b) >= min(a)


def _no_repeats(side: Mapping[str, Session]) -> Iterator[str]:
    """Yield a sentence for each session of a side that is no repeat of its first session."""
    (base, first), *others = side.items()
    for name, other in others:
        changes = environment_differences(first, other)
        names = [change.name for change in changes if change.part != "command"]
        if names:
            yield f"{name} is no repeat of {base}: they differ in {', '.join(names)}."


def differences(
    first: Sequence[Mapping[str, Figure]],
    other: Sequence[Mapping[str, Figure]],
    *,
    with_source: bool = True,
) -> tuple[Difference, ...]:
    """Return the differences of the figures that all sessions have.

    Args:
        first: Figures of each session of the first side.
        other: Figures of each session of the other side.
        with_source: Whether to include figures that contain the time of the source.
    """
    return tuple(
        _compare_figure([run[name] for run in first], [run[name] for run in other])
        for name, figure in first[0].items()
        if all(name in run for run in (*first, *other)) and (with_source or not figure.holds_source)
    )


def _compare_figure(first: Sequence[Figure], other: Sequence[Figure]) -> Difference:
    figure, runs = first[0], (*first, *other)
    a, b = _mean(first), _mean(other)
    spread = RunSpread.of([[run.estimate.value for run in side] for side in (first, other)])
    errors = [run.estimate.deviations for run in runs]
    reaches: tuple[float, float] | None = None
    if spread is not None:
        reach = spread.reach(len(first), len(other))
        reaches = -reach, reach
    elif len(runs) == 2 and errors[0] is not None and errors[1] is not None:
        tail = (1 - LEVEL) / 2
        low, high = np.quantile(errors[1] - errors[0], (tail, 1 - tail)).tolist()
        share = max(run.share for run in runs)
        reaches = -widened(low, share), widened(high, share)
    interval: tuple[float, float] | None = None
    verdict: Verdict = "not known"
    if reaches is not None:
        shift = math.log(b / a)
        shift = shift if abs(shift) > _ROUNDING else 0.0
        interval = (relative(shift + reaches[0]), relative(shift + reaches[1]))
        if interval[0] <= 0 <= interval[1]:
            verdict = "no difference shown"
        else:
            verdict = "better" if (interval[0] > 0) == figure.more_is_better else "worse"
    return Difference(
        name=figure.name,
        unit=figure.unit,
        first=a,
        other=b,
        change=b / a - 1 if a else None,
        interval=interval,
        verdict=verdict,
        is_of_run=figure.is_of_run,
        within=spread_within(run.estimate for run in runs),
        between=None if spread is None else relative(spread.deviation),
        least=None if reaches is None else (relative(-reaches[1]), relative(-reaches[0])),
    )


def _mean(side: Sequence[Figure]) -> float:
    """Return the geometric mean of a figure over the runs of a side; 0 if any value is 0."""
    values = [figure.estimate.value for figure in side]
    if len(values) == 1:
        return values[0]
    return math.exp(fmean(map(math.log, values))) if min(values) > 0 else 0.0
