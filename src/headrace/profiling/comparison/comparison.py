"""A comparison of sessions as a value: each against the first."""

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import PositiveInt

from headrace.errors import ConfigError
from headrace.profiling.comparison.environment_diff import (
    EnvironmentDifference,
    circumstances,
    disturbances,
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
    """Of the other against the first: 0.1 is a tenth more; None where the first is 0."""
    interval: tuple[float, float] | None
    """Holds the true change in 95 of 100 comparisons; None where a figure is one number for a whole
    run, or there are too few steps."""
    verdict: Verdict
    """`no difference shown`: the interval holds 0; `cannot be told`: other programs took the
    processor; `not known`: there is no interval."""
    is_of_run: bool = False
    """Whether it is one number for a whole run; where it is not and has no interval, there are too
    few steps."""


class RunComparison(Record):
    """One session against the first."""

    name: Text
    circumstances: tuple[EnvironmentDifference, ...]
    """What else differs; read it first."""
    warnings: tuple[Text, ...]
    disturbances: tuple[Text, ...] = ()
    """During which of them other programs took the processor, a sentence each: no difference of
    their figures can be told then."""
    differences: tuple[Difference, ...]


class Comparison(Record):
    """Sessions against the first of them."""

    version: PositiveInt = 1
    """Of this layout."""
    names: tuple[Text, ...]
    """Of the sessions; the first is what the others are compared with."""
    provenances: tuple[Provenance, ...]
    """Of each, in the same order."""
    runs: tuple[RunComparison, ...]
    """Of each but the first."""


def compare(
    sessions: Mapping[str, Session], *, any_input: bool = False, seed: int = 0
) -> Comparison:
    """Return how sessions differ from the first, with bootstrap intervals over their steps.

    The intervals tell how far figures spread from step to step within these runs. What differs from
    one run of the same to the next, such as a warm machine or other programs, is not in them.

    Args:
        sessions: By name, two or more.
        any_input: Compare those that read different inputs, too.
        seed: Of the draws: the same, the same intervals.

    Raises:
        ConfigError: fewer than two; one has too few steps; their inputs differ.
    """
    names = tuple(sessions)
    if len(names) < 2:
        raise ConfigError(f"a comparison needs two runs or more, got {len(names)}")
    for name, session in sessions.items():
        if len(session.steps) - session.warmup_steps < 2:
            raise ConfigError(
                f"{name} has fewer than 2 steps behind its warm-up, so there is nothing to "
                "compare; record a longer run"
            )
    first, *others = sessions.values()
    for name, other in zip(names[1:], others, strict=True):
        if has_same_input(first, other) is False and not any_input:
            raise ConfigError(
                f"{names[0]} and {name} read different inputs, so their figures do not tell the "
                "runs apart; run both on one video, or give --any-input"
            )
    base = figures(first, seed)
    are_alike = [(other.pace == "full_speed") == (first.pace == "full_speed") for other in others]
    return Comparison(
        names=names,
        provenances=tuple(session.provenance for session in sessions.values()),
        runs=tuple(
            _compared(
                (names[0], name),
                (first, other),
                differences(base, figures(other, seed + k), with_source=is_alike),
            )
            for k, (name, other, is_alike) in enumerate(
                zip(names[1:], others, are_alike, strict=True), 1
            )
        ),
    )


def _compared(
    names: tuple[str, str], sessions: tuple[Session, Session], found: tuple[Difference, ...]
) -> RunComparison:
    disturbed = tuple(disturbances(*sessions, names))
    if disturbed:
        found = tuple(
            each.model_copy(update={"verdict": "cannot be told"}) if each.interval else each
            for each in found
        )
    return RunComparison(
        name=names[1],
        circumstances=circumstances(*sessions),
        warnings=tuple(warnings(*sessions, names)),
        disturbances=disturbed,
        differences=found,
    )


def differences(
    first: Mapping[str, Figure], other: Mapping[str, Figure], *, with_source: bool = True
) -> tuple[Difference, ...]:
    """Return how the figures differ that both sessions have.

    Args:
        first: Of one.
        other: Of the other.
        with_source: Whether what their sources took means the same.
    """
    return tuple(
        _difference(first[name], other[name])
        for name in first
        if name in other and (with_source or not first[name].holds_source)
    )


def _difference(first: Figure, other: Figure) -> Difference:
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
