"""Estimates from data: ρ from features, mates from batches, sums by block bootstrap."""

from collections.abc import Callable
from dataclasses import dataclass
from math import atanh, sqrt, tanh
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError

DEFAULT_RHO: Final = 0.95
"""Assumed correlation of the gradients of two frames of one burst. Conservative: features of 8
neighboring frames of real clips had 0.933 to 0.959 (`docs/explanation/sampling.md`, measured by
`benchmarks/bench_correlation.py`), and gradients usually correlate less; bursts are then better
than predicted."""


@dataclass(frozen=True, kw_only=True)
class RhoEstimate:
    """Estimate of ρ with its 95 % interval."""

    value: float
    low: float
    high: float


def burst_correlation(
    features: NDArray[np.float64], burst: NDArray[np.int64], video: NDArray[np.int64]
) -> RhoEstimate:
    """Estimate ρ of frames from bursts by analysis of variance, with traces instead of variances.

    ρ = (MSB - MSW) / (MSB + (n0 - 1) MSW), n0 = (n - Σ n_i²/n) / (k - 1) for k bursts of n_i
    frames; 1 to 2 % too low at k = 40. Bursts of two frames `d` apart estimate the correlation at
    distance `d`; 400 of them to ±0.05 (one standard deviation). The interval is a jackknife over
    videos, on Fisher's z, with Student's t. It is approximate: in simulations with 5 videos or
    more, its coverage was 94.5 to 95.3 %.
    Source: Cochran, Sampling Techniques; Thomas and Hultquist, Ann. Stat. 6, 1978.

    Args:
        features: [n, D]: per-frame gradients, a random projection of them, or a proxy such as
            features or small images, which correlate more.
        burst: [n]: burst of each frame; without any one video, two bursts or more must remain.
        video: [n]: video of each frame.

    Raises:
        ConfigError: there are too few bursts, frames or videos, or features have no variance.
    """
    videos = np.unique(video)
    if len(videos) < 2:
        raise ConfigError("bursts of at least 2 videos are needed for an interval, got 1")
    return _jackknife(
        lambda rows: _anova(features[rows], burst[rows]), [video != omitted for omitted in videos]
    )


def measured_mate_lags(
    gops: NDArray[np.int64], gop_lengths: NDArray[np.int64], lags: int
) -> NDArray[np.float64]:
    """Estimate p of `bias.mate_lags` from batches: float64 [lags], k from 0.

    Counts pairs of frames of one GOP in the same batch and in batches k apart, minus the pairs
    expected with independent bursts: p_k = 2 (pairs - n_k q) / (B (1 - q)), q = Σ (g/F)²,
    n_0 = B(B-1)/2, n_k = B². Unbiased for independent bursts; too low by O(m B/F) if each frame
    occurs once. Consecutive batches are correlated: estimate the error from separate epochs.

    Args:
        gops: [batches, B]: GOP id of each delivered frame.
        gop_lengths: [GOPs]: frames of each GOP.
        lags: Number of lags, at most the number of batches.
    """
    size = gops.shape[1]
    chance = float(((gop_lengths / gop_lengths.sum()) ** 2).sum())
    pairs = np.array([_count_pairs(gops, lag) for lag in range(lags)])
    possible = np.full(lags, float(size * size))
    possible[0] = size * (size - 1) / 2
    return np.asarray(2 * (pairs - possible * chance) / (size * (1 - chance)))


def _anova(features: NDArray[np.float64], burst: NDArray[np.int64]) -> float:
    _, member, sizes = np.unique(burst, return_inverse=True, return_counts=True)
    frames, bursts = len(features), len(sizes)
    if bursts < 2 or frames == bursts:
        raise ConfigError(
            f"without any one video, at least 2 bursts must remain, one of 2 frames or more; got "
            f"{bursts} bursts with {frames} frames in all"
        )
    sums = np.zeros((bursts, features.shape[1]))
    np.add.at(sums, member, features)
    means = sums / sizes[:, None]
    between = sizes @ ((means - features.mean(0)) ** 2).sum(1) / (bursts - 1)
    within = ((features - means[member]) ** 2).sum() / (frames - bursts)
    typical = (frames - sizes @ sizes / frames) / (bursts - 1)
    if not between + within > 0:
        raise ConfigError("all features are equal and have no variance; give other features")
    return float((between - within) / (between + (typical - 1) * within))


def _jackknife(
    statistic: Callable[[NDArray[np.bool_] | slice], float], subsets: list[NDArray[np.bool_]]
) -> RhoEstimate:
    value = statistic(slice(None))
    replicates = [_fisher(statistic(rows)) for rows in subsets]
    error = sqrt((len(subsets) - 1) * float(np.var(replicates)))
    center = _fisher(value)
    reach = student_975(len(subsets) - 1) * error
    return RhoEstimate(value=value, low=tanh(center - reach), high=tanh(center + reach))


def student_975(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's t, for a two-sided 95 % interval; at most 1 % low.

    Sources: closed forms for 1 and 2 degrees of freedom; above, Fisher's expansion around the
    normal quantile (Abramowitz and Stegun, 26.7.5).
    """
    if freedom < 3:
        return 12.706204736 if freedom < 2 else 4.302652730
    z = 1.959963984540054
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _fisher(rho: float) -> float:
    return atanh(min(max(rho, -1 + 1e-12), 1 - 1e-12))


def _count_pairs(gops: NDArray[np.int64], lag: int) -> float:
    """Return the mean number of pairs of frames of one GOP in two batches `lag` apart."""
    pairs = [
        (batch[:, None] == later).sum()
        for batch, later in zip(gops[: len(gops) - lag], gops[lag:], strict=True)
    ]
    mean = float(np.mean(pairs))
    return (mean - gops.shape[1]) / 2 if lag == 0 else mean


def resampled_sums(
    columns: NDArray[np.float64], block: int, draws: int, seed: int
) -> NDArray[np.float64]:
    """Return bootstrap sums of columns over steps, resampled with replacement in blocks.

    A block is `block` consecutive steps, starting anywhere and wrapping around at the end (circular
    block bootstrap: Politis and Romano 1992). Correlated neighbors are drawn together, so the sums
    have the variance of the series.

    Args:
        columns: float64 [steps, columns].
        block: Steps in a block, >= 1.
        draws: Number of resampled series.
        seed: Seed of the resampling.

    Returns:
        float64 [draws, columns]: sums over at least `steps` steps, equally many in every draw.
        Temporarily takes 8 * draws * steps / block bytes.
    """
    steps = len(columns)
    circle = np.concatenate([columns, columns[: block - 1]])
    ends = np.concatenate([np.zeros((1, columns.shape[1])), np.cumsum(circle, axis=0)])
    sums = ends[block:] - ends[:-block]
    starts = np.random.default_rng(seed).integers(0, steps, (draws, -(-steps // block)))
    # Column by column, so that reads are from contiguous memory.
    return np.stack([np.ascontiguousarray(column)[starts].sum(axis=1) for column in sums.T], axis=1)
