"""Spread of a figure from run to run and within a run, and the smallest change that shows."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Self

import numpy as np

from headrace.profiling.comparison.estimate import BootstrapEstimate
from headrace.profiling.number_format import fine_percent
from headrace.sampling.rho_estimate import student_975

ASSUMED: Final = 0.02
"""Standard deviation of a figure's logarithm from run to run, where there are no repeats.

Equal loops of 5 ms steps in turns, on a quiet machine, differed by as much (`bench_compare`).
"""
_MIN_SHARE: Final = 1e-4
"""Smallest share of a step for which a spread is assumed; below it, that of this share."""
_MAX_LOGARITHM: Final = 100.0
"""Of a change, 1e43 times."""


@dataclass(frozen=True, kw_only=True)
class RunSpread:
    """Spread of a figure over the runs of several sides, taken as equal on all sides."""

    deviation: float
    """Standard deviation of the figure's logarithm from run to run."""
    freedom: int
    """Degrees of freedom: runs minus sides."""

    @classmethod
    def of(cls, sides: Sequence[Sequence[float]]) -> Self | None:
        """Return the spread of a figure, pooled over the sides, at least one.

        None without repeats, or where a value is 0.
        """
        freedom = sum(map(len, sides)) - len(sides)
        if not freedom or min(map(min, sides)) <= 0:
            return None
        logs = [np.log(side) for side in sides]
        squares = sum(float(((side - side.mean()) ** 2).sum()) for side in logs)
        return cls(deviation=math.sqrt(squares / freedom), freedom=freedom)

    def reach(self, first: int, other: int) -> float:
        """Return half the width of the 95 % interval of a change, by Student's t; a logarithm.

        Args:
            first: Runs of one side.
            other: Runs of the other side.
        """
        return student_975(self.freedom) * self.deviation * math.sqrt(1 / first + 1 / other)


def widened(reach: float, share: float) -> float:
    """Return the reach of an interval over the steps of two runs, their assumed spread included.

    The spread of a part of a step grows as its share gets smaller: if a step is a sum of equal
    parts that vary independently, it is that of a step over the root of the share.
    """
    spread = ASSUMED / math.sqrt(max(share, _MIN_SHARE))
    return math.hypot(reach, student_975(math.inf) * spread * math.sqrt(2))


def spread_within(estimates: Iterable[BootstrapEstimate | None]) -> float | None:
    """Return the relative standard error of the figure of one run, in the mean over the runs.

    None: no run has the draws over its steps.
    """
    drawn = [known.deviations for known in estimates if known is not None]
    errors = [float(np.std(deviations)) for deviations in drawn if deviations is not None]
    return relative(fmean(errors)) if errors else None


def relative(logarithm: float) -> float:
    """Return the relative change with this logarithm, bounded where it means nothing."""
    return math.expm1(min(logarithm, _MAX_LOGARITHM))


def unshown(least: tuple[float, float]) -> str:
    """`drop of less than 4.4 %, or a rise of less than 4.6 %, would not have been shown`."""
    drop, rise = map(fine_percent, least)
    return f"drop of less than {drop}, or a rise of less than {rise}, would not have been shown"
