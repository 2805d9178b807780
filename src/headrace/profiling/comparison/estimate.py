"""Estimates of a figure: a bootstrap over the steps of a session, and the spread of runs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from headrace.profiling.number_format import fine_percent
from headrace.sampling.bias import resampled_sums, student_975


def block_length(series: NDArray[np.float64]) -> int:
    """Return the block length for a circular block bootstrap of the mean of a series.

    The rule of Politis and White (2004, corrected with Patton 2009): the length grows with the
    correlation of neighbors. The result is at least the cube root of the number of steps, because
    the rule underestimates the correlation of short series, and at most a fifth of the steps.

    Args:
        series: float64 [steps].
    """
    steps = len(series)
    centred = series - series.mean()
    variance = float(centred @ centred) / steps
    if steps < 5 or variance <= 0:
        return 1
    max_lag = min(steps - 1, math.ceil(math.sqrt(steps)) + 2 * _noise_lags(steps))
    covariances = np.array([centred[: steps - lag] @ centred[lag:] for lag in range(max_lag + 1)])
    covariances = covariances / steps
    last = min(max_lag, 2 * _find_last_lag(covariances / variance, steps))
    lags = np.arange(-last, last + 1)
    # Flat top: full weight for the first half of the lags, then linear to 0.
    weights = np.clip(2 * (1 - np.abs(lags) / max(1, last)), 0, 1)
    spectrum = float((weights * covariances[np.abs(lags)]).sum())
    slope = float((weights * np.abs(lags) * covariances[np.abs(lags)]).sum())
    min_length = round(math.pow(steps, 1 / 3))
    if spectrum <= 0:
        return min_length
    length = math.pow(1.5 * (slope / spectrum) ** 2 * steps, 1 / 3)
    return max(min_length, min(round(length), steps // 5))


def _noise_lags(steps: int) -> int:
    """Return the min number of consecutive lags that look like noise."""
    return max(5, math.ceil(math.sqrt(math.log10(steps))))


def _find_last_lag(correlations: NDArray[np.float64], steps: int) -> int:
    """Return the lag after which correlations look like noise; at least 1."""
    limit = 2 * math.sqrt(math.log10(steps) / steps)
    window = _noise_lags(steps)
    for lag in range(len(correlations) - window):
        if (np.abs(correlations[lag + 1 : lag + 1 + window]) < limit).all():
            return max(1, lag)
    return max(1, len(correlations) - 1)


LEVEL: Final = 0.95
"""Confidence level of an interval."""
DRAWS: Final = 2_000
"""Bootstrap draws."""
MIN_STEPS: Final = 30
"""Min steps for an interval."""
MIN_BLOCKS: Final = 5
"""Min blocks for an interval."""
_MAX_GROUPS: Final = 1_000
"""Max values to draw from; more steps are first summed in groups, to reduce the cost."""


@dataclass(frozen=True, kw_only=True)
class BootstrapEstimate:
    """One figure of one session."""

    value: float
    deviations: NDArray[np.float64] | None
    """float64 [DRAWS]: log(drawn value ÷ `value`); None: too few steps, or `value` is 0."""


def ratio_estimate(
    numerator: NDArray[np.float64], denominator: NDArray[np.float64], seed: int
) -> BootstrapEstimate | None:
    """Return the ratio of two sums, such as milliseconds per frame; None: the denominator is 0.

    Args:
        numerator: float64 [steps].
        denominator: float64 [steps].
        seed: Seed of the draws.
    """
    if not len(numerator) or denominator.sum() <= 0:
        return None
    value = float(numerator.sum() / denominator.sum())
    columns = _group(np.stack([numerator, denominator], axis=1))
    drawn = _draw(columns, columns[:, 0] - value * columns[:, 1], seed)
    if drawn is None or value <= 0:
        return BootstrapEstimate(value=value, deviations=None)
    sums, widening = drawn
    ratios = np.maximum(sums[:, 0], np.finfo(float).tiny) / sums[:, 1]
    return BootstrapEstimate(value=value, deviations=np.log(ratios / value) * widening)


def quantile_estimate(
    values: NDArray[np.float64], share: float, seed: int
) -> BootstrapEstimate | None:
    """Return a quantile by nearest rank; None without samples.

    If a draw has a smaller share of its samples below the quantile, its own quantile is the sample
    at a rank that is higher by the difference (Bahadur 1966).

    Args:
        values: float64 [steps].
        share: Quantile in (0, 1); 0.5 is the median.
        seed: Seed of the draws.
    """
    if not len(values):
        return None
    ranked = np.sort(values)
    value = _select(ranked, np.array([share]))[0]
    below = (values <= value).astype(np.float64)
    columns = _group(np.stack([below, np.ones_like(below)], axis=1))
    drawn = _draw(columns, columns[:, 0] - below.mean() * columns[:, 1], seed)
    if drawn is None or value <= 0:
        return BootstrapEstimate(value=float(value), deviations=None)
    sums, widening = drawn
    shifts = (sums[:, 0] / sums[:, 1] - below.mean()) * widening
    others = np.maximum(_select(ranked, share - shifts), np.finfo(float).tiny)
    return BootstrapEstimate(value=float(value), deviations=np.log(others / value))


def _select(ranked: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the samples at the ranks of `shares`, which are clipped to [0, 1]."""
    ranks = np.ceil(shares * len(ranked)).astype(np.int64) - 1
    samples: NDArray[np.float64] = ranked[np.clip(ranks, 0, len(ranked) - 1)]
    return samples


def _group(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums over groups of consecutive steps; a partial last group is dropped."""
    size = -(-len(columns) // _MAX_GROUPS)
    stop = len(columns) // size * size
    grouped: NDArray[np.float64] = columns[:stop].reshape(-1, size, columns.shape[1]).sum(axis=1)
    return grouped


def _draw(
    columns: NDArray[np.float64], influence: NDArray[np.float64], seed: int
) -> tuple[NDArray[np.float64], float] | None:
    """Return the sums of the draws, and the factor to widen them; None: too few blocks."""
    block = block_length(influence)
    blocks = len(columns) / block
    if len(columns) < MIN_STEPS or blocks < MIN_BLOCKS:
        return None
    return resampled_sums(columns, block, DRAWS, seed), _widening(blocks)


def _widening(blocks: float) -> float:
    """Return the factor that corrects the width of an interval from few blocks.

    Uses Student's t instead of the normal distribution, and n - 1 in the spread: Hesterberg 2015,
    "What teachers should know about the bootstrap". Approaches 1 with many blocks; 1.6 for five.
    """
    free = blocks - 1
    return student_975(free) / student_975(math.inf) * math.sqrt(blocks / free)


ASSUMED: Final = 0.02
"""Assumed standard deviation of a figure's logarithm from run to run, without repeats.

`bench_compare` measured it: equal loops of 5 ms steps, in turns on a quiet machine.
"""
_MIN_SHARE: Final = 1e-4
"""Min share of a step in the formula of the assumed spread."""
_MAX_LOGARITHM: Final = 100.0
"""Max logarithm of a change: a factor of 1e43."""


@dataclass(frozen=True, kw_only=True)
class RunSpread:
    """Spread of a figure from run to run, assumed to be equal on all sides."""

    deviation: float
    """Standard deviation of the figure's logarithm from run to run."""
    freedom: int
    """Degrees of freedom: runs minus sides."""

    @classmethod
    def of(cls, sides: Sequence[Sequence[float]]) -> Self | None:
        """Return the spread of a figure, pooled over at least one side.

        None without repeats, or if a value is 0.
        """
        freedom = sum(map(len, sides)) - len(sides)
        if not freedom or min(map(min, sides)) <= 0:
            return None
        logs = [np.log(side) for side in sides]
        squares = sum(float(((side - side.mean()) ** 2).sum()) for side in logs)
        return cls(deviation=math.sqrt(squares / freedom), freedom=freedom)

    def reach(self, first: int, other: int) -> float:
        """Return half the width of the 95 % interval of a change, by Student's t, as a logarithm.

        Args:
            first: Number of runs of the first side.
            other: Number of runs of the other side.
        """
        return student_975(self.freedom) * self.deviation * math.sqrt(1 / first + 1 / other)


def widened(reach: float, share: float) -> float:
    """Return the reach of an interval over the steps of two runs, including their assumed spread.

    The smaller the share of a part of a step, the larger its spread: if a step is a sum of equal,
    independent parts, the spread is that of a step ÷ √share.
    """
    spread = ASSUMED / math.sqrt(max(share, _MIN_SHARE))
    return math.hypot(reach, student_975(math.inf) * spread * math.sqrt(2))


def spread_within(estimates: Iterable[BootstrapEstimate | None]) -> float | None:
    """Return the relative standard error of the figure of one run, the mean over all runs.

    None: no run has draws.
    """
    drawn = [estimate.deviations for estimate in estimates if estimate is not None]
    errors = [float(np.std(deviations)) for deviations in drawn if deviations is not None]
    return relative(fmean(errors)) if errors else None


def relative(logarithm: float) -> float:
    """Return the relative change of a logarithm, which is limited to `_MAX_LOGARITHM`."""
    return math.expm1(min(logarithm, _MAX_LOGARITHM))


def unshown(least: tuple[float, float]) -> str:
    """`drop of less than 4.4 %, or a rise of less than 4.6 %, would not have been shown`."""
    drop, rise = map(fine_percent, least)
    return f"drop of less than {drop}, or a rise of less than {rise}, would not have been shown"
