"""Comparison of sessions as a value: each against the first."""

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import PositiveInt

from headrace.errors import ConfigError
from headrace.profiling.comparison.environment_diff import (
    EnvironmentDifference,
    disturbances,
    environment_differences,
    has_same_input,
    warnings,
)
from headrace.profiling.comparison.estimate import LEVEL
from headrace.profiling.comparison.figures import Figure, Unit, figures
from headrace.profiling.provenance import Provenance, Record, Text
from headrace.profiling.session import Session

Verdict = Literal["better", "worse", "no difference shown", "cannot be told", "not known"]


class Difference(Record):
    """One figure of two sessions."""

    name: Text
    unit: Unit
    first: float
    other: float
    change: float | None
    """Relative change from the first session, 0.1 is 10 % more; None if the first is 0."""
    interval: tuple[float, float] | None
    """95 % confidence interval of the change; None for a figure with one number per run, or with
    too few steps."""
    verdict: Verdict
    """`no difference shown`: the interval contains 0; `cannot be told`: other programs used the
    CPU; `not known`: there is no interval."""
    is_of_run: bool = False
    """Whether the figure is one number per run. If False, a missing interval means too few
    steps."""


class RunComparison(Record):
    """Comparison of one session with the first."""

    name: Text
    circumstances: tuple[EnvironmentDifference, ...]
    """Environment differences; read them first."""
    warnings: tuple[Text, ...]
    disturbances: tuple[Text, ...] = ()
    """Sentences on sessions that other programs disturbed; if any, no difference is reported."""
    differences: tuple[Difference, ...]


class Comparison(Record):
    """Comparison of sessions with the first of them."""

    version: PositiveInt = 1
    """Version of the layout."""
    names: tuple[Text, ...]
    """Names of the sessions; the others are compared with the first."""
    provenances: tuple[Provenance, ...]
    """Provenance of each session, in the same order."""
    runs: tuple[RunComparison, ...]
    """Comparison of each session after the first."""


def compare(
    sessions: Mapping[str, Session], *, any_input: bool = False, seed: int = 0
) -> Comparison:
    """Return the differences of sessions from the first, with bootstrap intervals over their steps.

    The intervals cover the spread between steps within these runs. They do not cover the spread
    between runs, for example from a warm machine or other programs.

    Args:
        sessions: Name → session, two or more.
        any_input: Compare sessions with different inputs, too.
        seed: Seed of the draws; equal seeds give equal intervals.

    Raises:
        ConfigError: fewer than two sessions; one has too few steps; inputs differ.
    """
    names = tuple(sessions)
    if len(names) < 2:
        raise ConfigError(f"a comparison needs two runs or more, got {len(names)}")
    for name, session in sessions.items():
        if len(session.steps) - session.warmup_steps < 2:
            raise ConfigError(
                f"{name} has fewer than 2 steps after its warm-up, too few to compare; record a "
                "longer run"
            )
    first, *others = sessions.values()
    for name, other in zip(names[1:], others, strict=True):
        if has_same_input(first, other) is False and not any_input:
            raise ConfigError(
                f"{names[0]} and {name} read different inputs, so their figures are not "
                "comparable; run both on one video, or give --any-input"
            )
    base = figures(first, seed)
    return Comparison(
        names=names,
        provenances=tuple(session.provenance for session in sessions.values()),
        runs=tuple(
            _compare_run((names[0], name), (first, other), (base, figures(other, seed + index)))
            for index, (name, other) in enumerate(zip(names[1:], others, strict=True), 1)
        ),
    )


def _compare_run(
    names: tuple[str, str],
    sessions: tuple[Session, Session],
    pair: tuple[Mapping[str, Figure], Mapping[str, Figure]],
) -> RunComparison:
    first, other = sessions
    is_alike = (first.pace == "full_speed") == (other.pace == "full_speed")
    compared = differences(*pair, with_source=is_alike)
    disturbed = tuple(disturbances(*sessions, names))
    if disturbed:
        compared = tuple(
            difference.model_copy(update={"verdict": "cannot be told"})
            if difference.interval
            else difference
            for difference in compared
        )
    return RunComparison(
        name=names[1],
        circumstances=environment_differences(*sessions),
        warnings=tuple(warnings(*sessions, names)),
        disturbances=disturbed,
        differences=compared,
    )


def differences(
    first: Mapping[str, Figure], other: Mapping[str, Figure], *, with_source: bool = True
) -> tuple[Difference, ...]:
    """Return the differences of the figures that both sessions have.

    Args:
        first: Figures of the first session.
        other: Figures of the other session.
        with_source: Include figures with the time of the source; False if a source is paced.
    """
    return tuple(
        _compare_figure(first[name], other[name])
        for name in first
        if name in other and (with_source or not first[name].holds_source)
    )


def _compare_figure(first: Figure, other: Figure) -> Difference:
    a, b = first.estimate, other.estimate
    change = b.value / a.value - 1 if a.value else None
    interval: tuple[float, float] | None = None
    verdict: Verdict = "not known"
    if a.deviations is not None and b.deviations is not None:
        tail = (1 - LEVEL) / 2
        low, high = np.quantile(b.deviations - a.deviations, (tail, 1 - tail))
        shift = math.log(b.value / a.value)
        interval = (math.expm1(shift + low), math.expm1(shift + high))
        if interval[0] <= 0 <= interval[1]:
            verdict = "no difference shown"
        else:
            verdict = "better" if (interval[0] > 0) == first.more_is_better else "worse"
    return Difference(
        name=first.name,
        unit=first.unit,
        first=a.value,
        other=b.value,
        change=change,
        interval=interval,
        verdict=verdict,
        is_of_run=first.is_of_run,
    )
