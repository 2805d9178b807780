"""Estimates from data: ρ from features, mates from batches, sums by a block bootstrap."""

from collections.abc import Callable
from dataclasses import dataclass
from math import atanh, sqrt, tanh
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError

DEFAULT_RHO: Final = 0.95
"""Assumed correlation of the gradients of two frames of one burst. Cautious: features of 8
neighbouring frames of real clips gave 0.933 to 0.959 (`docs/explanation/sampling.md`, measured by
`benchmarks/bench_correlation.py`), and gradients usually correlate less. Where they do, bursts are
better than predicted with it."""


@dataclass(frozen=True, kw_only=True)
class RhoEstimate:
    """Estimate of ρ with its 95 % interval."""

    value: float
    low: float
    high: float


def burst_correlation(
    features: NDArray[np.float64], burst: NDArray[np.int64], video: NDArray[np.int64]
) -> RhoEstimate:
    """Return ρ of frames from bursts by analysis of variance, with traces in place of variances.

    ρ = (MSB - MSW) / (MSB + (n0 - 1) MSW), n0 = (n - Σ n_i²/n) / (k - 1) for k bursts of n_i
    frames: low by 1 to 2 % at k = 40. Bursts of two frames `d` apart give the correlation at
    distance `d`; 400 of them give ρ to ±0.05 (one standard deviation). The interval is a jackknife
    that leaves out one video at a time, on Fisher's z, with Student's t; approximate (simulated
    with 5 videos or more, it held ρ 94.5 to 95.3 % of the time).
    Source: Cochran, Sampling Techniques; Thomas and Hultquist, Ann. Stat. 6, 1978.

    Args:
        features: [n, D], per-frame gradients, a random projection of them, or a proxy such as
            features or small images, which correlate more.
        burst: [n], the burst of each frame; two or more must remain without any one video.
        video: [n], the video of each frame.

    Raises:
        ConfigError: too few bursts, frames or videos, or features without any variance.
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
    """Return the p of `bias.mate_lags` as counted in batches: float64 [lags], k from 0.

    Counts pairs of frames of one GOP in the same batch and in batches k apart, minus those expected
    of independent bursts: p_k = 2 (pairs - n_k q) / (B (1 - q)), q = Σ (g/F)², n_0 =
    B(B-1)/2, n_k = B². Unbiased for independent bursts, low by O(m B/F) for each frame once.
    Successive batches are correlated: estimate its error from separate epochs.

    Args:
        gops: [batches, B], the GOP id of each delivered frame.
        gop_lengths: [GOPs].
        lags: Number of lags; at most that of batches.
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
            f"at least 2 bursts, one of them of 2 frames, must remain without any one video; got "
            f"{bursts} bursts of {frames} frames in all"
        )
    sums = np.zeros((bursts, features.shape[1]))
    np.add.at(sums, member, features)
    means = sums / sizes[:, None]
    between = sizes @ ((means - features.mean(0)) ** 2).sum(1) / (bursts - 1)
    within = ((features - means[member]) ** 2).sum() / (frames - bursts)
    typical = (frames - sizes @ sizes / frames) / (bursts - 1)
    if not between + within > 0:
        raise ConfigError("all features are equal: they have no variance to divide")
    return float((between - within) / (between + (typical - 1) * within))


def _jackknife(
    statistic: Callable[[NDArray[np.bool_] | slice], float], subsets: list[NDArray[np.bool_]]
) -> RhoEstimate:
    value = statistic(slice(None))
    replicates = [_fisher(statistic(rows)) for rows in subsets]
    spread = sqrt((len(subsets) - 1) * float(np.var(replicates)))
    centre = _fisher(value)
    reach = student_975(len(subsets) - 1) * spread
    return RhoEstimate(value=value, low=tanh(centre - reach), high=tanh(centre + reach))


def student_975(freedom: float) -> float:
    """Return the quantile of a two-sided 95 % interval of Student's t, at most 1 % low.

    Sources: closed forms for freedom 1 and 2; above, Fisher's expansion around the normal quantile
    (Abramowitz and Stegun, 26.7.5).
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
    """Return the mean number of pairs of frames of one GOP, between batches `lag` apart."""
    pairs = [
        (batch[:, None] == later).sum()
        for batch, later in zip(gops[: len(gops) - lag], gops[lag:], strict=True)
    ]
    mean = float(np.mean(pairs))
    return (mean - gops.shape[1]) / 2 if lag == 0 else mean


def resampled_sums(
    columns: NDArray[np.float64], block: int, draws: int, seed: int
) -> NDArray[np.float64]:
    """Return sums of columns over steps that are redrawn, with replacement, in blocks.

    A block is `block` consecutive steps, from any step on, wrapping around at the end (circular
    block bootstrap: Politis and Romano 1992): correlated neighbours are drawn together, so the sums
    have the spread of the series itself.

    Args:
        columns: float64 [steps, columns].
        block: Steps in a block, >= 1.
        draws: Number of redrawn series.
        seed: Equal seeds give equal sums.

    Returns:
        float64 [draws, columns]: sums over at least `steps` steps, the same number in every draw.
        Takes 8 * draws * steps / block bytes of memory for a moment.
    """
    steps = len(columns)
    circle = np.concatenate([columns, columns[: block - 1]])
    ends = np.concatenate([np.zeros((1, columns.shape[1])), np.cumsum(circle, axis=0)])
    sums = ends[block:] - ends[:-block]
    starts = np.random.default_rng(seed).integers(0, steps, (draws, -(-steps // block)))
    # One column at a time, so that reads are from contiguous memory.
    return np.stack([np.ascontiguousarray(column)[starts].sum(axis=1) for column in sums.T], axis=1)
