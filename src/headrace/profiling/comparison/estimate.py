"""A figure over the steps of one session, and how far another run of as many steps might be."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.block_bootstrap import resampled_sums


def block_length(series: NDArray[np.float64]) -> int:
    """Return the steps in a block that lets the mean of a series spread as it does in earnest.

    By the rule of Politis and White (2004, corrected with Patton 2009) for circular blocks, which
    grow with what neighbours have in common; but the cube root of the steps at least, since the
    rule sees too little of it in short series, and a fifth of the steps at most.

    Args:
        series: float64 [steps].
    """
    steps = len(series)
    centred = series - series.mean()
    variance = float(centred @ centred) / steps
    if steps < 5 or variance <= 0:
        return 1
    most = min(steps - 1, math.ceil(math.sqrt(steps)) + 2 * _stretch(steps))
    covariances = np.array([centred[: steps - lag] @ centred[lag:] for lag in range(most + 1)])
    covariances = covariances / steps
    last = min(most, 2 * _last_lag(covariances / variance, steps))
    lags = np.arange(-last, last + 1)
    # A flat top: full weight for the first half of the lags, then down to nothing.
    weights = np.clip(2 * (1 - np.abs(lags) / max(1, last)), 0, 1)
    spectrum = float((weights * covariances[np.abs(lags)]).sum())
    slope = float((weights * np.abs(lags) * covariances[np.abs(lags)]).sum())
    least = round(math.pow(steps, 1 / 3))
    if spectrum <= 0:
        return least
    length = math.pow(1.5 * (slope / spectrum) ** 2 * steps, 1 / 3)
    return max(least, min(round(length), steps // 5))


def _stretch(steps: int) -> int:
    """Lags in a row that must look like noise."""
    return max(5, math.ceil(math.sqrt(math.log10(steps))))


def _last_lag(correlations: NDArray[np.float64], steps: int) -> int:
    """The lag behind which correlations look like noise; at least 1."""
    limit = 2 * math.sqrt(math.log10(steps) / steps)
    stretch = _stretch(steps)
    for lag in range(len(correlations) - stretch):
        if (np.abs(correlations[lag + 1 : lag + 1 + stretch]) < limit).all():
            return max(1, lag)
    return max(1, len(correlations) - 1)


LEVEL: Final = 0.95
"""Of an interval: this share of them is to hold the true difference."""
DRAWS: Final = 2_000
LEAST_STEPS: Final = 30
"""With fewer, nothing is said of how far another run might be."""
LEAST_BLOCKS: Final = 5
"""With fewer, nothing is known of how the blocks differ."""
_MOST_GROUPS: Final = 1_000
"""More steps are added up in groups first, which changes nothing but the cost."""


@dataclass(frozen=True, kw_only=True)
class BootstrapEstimate:
    """One figure of one session."""

    value: float
    deviations: NDArray[np.float64] | None
    """float64 [DRAWS]: logarithm of what it could have been as well, over what it is; None where
    there are too few steps to tell, or it is 0."""


def ratio_estimate(
    numerator: NDArray[np.float64], denominator: NDArray[np.float64], seed: int
) -> BootstrapEstimate | None:
    """Return sum over sum, such as milliseconds per frame; None where there is nothing to divide.

    Args:
        numerator: float64 [steps].
        denominator: float64 [steps].
        seed: Of the draws.
    """
    if not len(numerator) or denominator.sum() <= 0:
        return None
    value = float(numerator.sum() / denominator.sum())
    columns = _grouped(np.stack([numerator, denominator], axis=1))
    drawn = _drawn(columns, columns[:, 0] - value * columns[:, 1], seed)
    if drawn is None or value <= 0:
        return BootstrapEstimate(value=value, deviations=None)
    sums, widening = drawn
    ratios = np.maximum(sums[:, 0], np.finfo(float).tiny) / sums[:, 1]
    return BootstrapEstimate(value=value, deviations=np.log(ratios / value) * widening)


def quantile_estimate(
    values: NDArray[np.float64], share: float, seed: int
) -> BootstrapEstimate | None:
    """Return the sample below which a share of all lie (nearest rank); None without samples.

    What it could have been as well is read off the samples themselves: where the share of those
    below it comes out smaller in a draw, it lies so much higher (Bahadur 1966).

    Args:
        values: float64 [steps].
        share: In (0, 1), such as 0.5 for the median.
        seed: Of the draws.
    """
    if not len(values):
        return None
    ranked = np.sort(values)
    value = _at(ranked, np.array([share]))[0]
    below = (values <= value).astype(np.float64)
    columns = _grouped(np.stack([below, np.ones_like(below)], axis=1))
    drawn = _drawn(columns, columns[:, 0] - below.mean() * columns[:, 1], seed)
    if drawn is None or value <= 0:
        return BootstrapEstimate(value=float(value), deviations=None)
    sums, widening = drawn
    shifts = (sums[:, 0] / sums[:, 1] - below.mean()) * widening
    others = np.maximum(_at(ranked, share - shifts), np.finfo(float).tiny)
    return BootstrapEstimate(value=float(value), deviations=np.log(others / value))


def _at(ranked: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The samples of these ranks, those outside [0, 1] being the first and last."""
    ranks = np.ceil(shares * len(ranked)).astype(np.int64) - 1
    found: NDArray[np.float64] = ranked[np.clip(ranks, 0, len(ranked) - 1)]
    return found


def _grouped(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums over steps that follow each other, where these are too many; the rest is left out."""
    size = -(-len(columns) // _MOST_GROUPS)
    whole = len(columns) // size * size
    grouped: NDArray[np.float64] = columns[:whole].reshape(-1, size, columns.shape[1]).sum(axis=1)
    return grouped


def _drawn(
    columns: NDArray[np.float64], influence: NDArray[np.float64], seed: int
) -> tuple[NDArray[np.float64], float] | None:
    """Sums of the draws, and by how much their spread falls short; None with too few blocks."""
    block = block_length(influence)
    blocks = len(columns) / block
    if len(columns) < LEAST_STEPS or blocks < LEAST_BLOCKS:
        return None
    return resampled_sums(columns, block, DRAWS, seed), _widening(blocks)


def _widening(blocks: float) -> float:
    """What makes an interval from few blocks as wide as it must be.

    Student's t for the normal distribution, and the n - 1 of a spread: Hesterberg 2015, "What
    teachers should know about the bootstrap". 1 for very many; 1.6 for five.
    """
    normal = NormalDist().inv_cdf(0.5 + LEVEL / 2)
    free = blocks - 1
    # Cornish and Fisher's series; within 1 % from 4 degrees of freedom on.
    student = (
        normal
        + (normal**3 + normal) / (4 * free)
        + (5 * normal**5 + 16 * normal**3 + 3 * normal) / (96 * free**2)
        + (3 * normal**7 + 19 * normal**5 + 17 * normal**3 - 15 * normal) / (384 * free**3)
    )
    return student / normal * math.sqrt(blocks / free)
