"""Bias of a sampler, and the variance that correlated frames add to gradients.

Three numbers compare a sampler with i.i.d. frames. Bias alone is not enough: reading in order from
a uniform start has none.

- *bias*: distance of the expected gradient from the true one, in standard deviations σ of the
  gradient of a frame. 0 for every sampler here that is uniform over frames.
- *design effect*: variance of a batch mean ÷ variance with i.i.d. frames. Above 1, the effective
  size of a batch of B is B / design effect.
- *inflation*: the same ratio for the sum over many batches, which determines the noise of an
  optimizer.

ρ is the correlation of the gradients of two *mates*, frames of one burst: E⟨h(x)-μ, h(y)-μ⟩ / σ²
(`burst_correlation` estimates it from data). `docs/explanation/sampling.md` derives the formulas.
`decode_cost.assess` returns all three for a sampler and a set of videos, with the decode cost.
"""

from dataclasses import dataclass
from math import atanh, sqrt, tanh
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError

LAGS: Final = 8
"""Max distance, in steps, of batches whose correlation is predicted or measured."""


def bias(
    frequency: NDArray[np.float64], frames: NDArray[np.int64], means: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return expected minus true gradient, float64 [D]: the covariance of frequency and gradient.

    Exact: E ĝ - ∇L = Cov(F·w, h) over a uniform frame. Frames are grouped in cells of equal
    frequency (videos, or positions in a GOP).

    Args:
        frequency: [cells]: sampling frequency of a frame in each cell, in any unit.
        frames: [cells]: frames in each cell.
        means: [cells, D]: mean gradient of each cell.
    """
    excess = frames / frames.sum() * (_relative(frequency, frames) - 1)
    return np.asarray(excess @ means, np.float64)


def bias_bound(frequency: NDArray[np.float64], frames: NDArray[np.int64]) -> float:
    """Return the max bias over all possible gradients, in units of σ.

    It is the coefficient of variation of F·w (Cauchy-Schwarz), reached if the gradient is linear in
    the frequency. Arguments as for `bias`.
    """
    deviation = _relative(frequency, frames) - 1
    return float(np.sqrt(frames / frames.sum() @ deviation**2))


def unbiased_weights(
    frequency: NDArray[np.float64], frames: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the weight 1 / (F·w) of a frame in each cell, which makes the weighted loss unbiased.

    Arguments as for `bias`.

    Raises:
        ConfigError: a cell is never sampled, which no weight can correct; for example, if only
            keyframes are sampled.
    """
    if (frequency == 0).any():
        raise ConfigError(
            f"{frames[frequency == 0].sum()} of {frames.sum()} frames are never sampled; "
            "weights cannot remove that bias: sample every frame with a probability above 0"
        )
    return 1 / _relative(frequency, frames)


def mate_lags(frames_per_burst: int, lanes: int, batch_size: int) -> NDArray[np.float64]:
    """Return p: the number of a frame's mates that `Bursts` delivers k batches earlier or later.

    float64 [lags], k from 0; the sum is frames_per_burst - 1. Mates are d · lanes slots apart,
    2(m - d)/m of them for d in [1, m). Exact for full bursts; p[0] = 0 if lanes >= batch_size.
    """
    distance = np.arange(1, frames_per_burst)
    mates = 2 * (frames_per_burst - distance) / frames_per_burst
    lag, into = np.divmod(distance * lanes, batch_size)
    lags = np.zeros(int(lag.max(initial=0)) + 2)
    np.add.at(lags, lag, mates * (1 - into / batch_size))
    np.add.at(lags, lag + 1, mates * into / batch_size)
    return np.trim_zeros(lags, "b") if lags.any() else lags[:1]


def run_correlation(correlation: NDArray[np.float64]) -> float:
    """Return ρ of bursts of m consecutive frames, from the correlation r(k) of frames k apart.

    ρ = 2 / (m(m-1)) · Σ (m - k) r(k), k in [1, m), so r(k) measured once gives ρ for every m.
    `correlation` is r, float64 [m - 1].
    """
    weights = np.arange(len(correlation), 0, -1)
    return float(weights @ correlation / weights.sum())


def design_effect(rho: float, lags: NDArray[np.float64]) -> float:
    """Return variance of a batch mean ÷ variance with i.i.d. frames: 1 + ρ p[0].

    Source: Kish, 1965.
    """
    return 1 + rho * float(lags[0])


def long_run_inflation(rho: float, lags: NDArray[np.float64]) -> float:
    """Return the inflation of the sum of infinitely many batches: 1 + ρ Σ p = 1 + (m - 1) ρ.

    It does not depend on the distance of mates: shuffling moves noise to lower frequencies, but
    does not remove it. For bursts drawn with replacement; see `epoch_inflation` for each frame
    once.
    """
    return 1 + rho * float(lags.sum())


def sgd_inflation(rho: float, lags: NDArray[np.float64], contraction: float) -> float:
    """Return stationary variance of SGD ÷ variance with i.i.d. frames: 1 + ρ Σ (1-a)^k p[k].

    `contraction` is a = step size · curvature of a direction, in (0, 1]. Exact for a quadratic loss
    and bursts drawn with replacement. Near 1: mates have little effect on the optimizer.
    """
    return 1 + rho * float((1 - contraction) ** np.arange(len(lags)) @ lags)


def autocorrelation(rho: float, lags: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the correlation of mean gradients of batches 1, 2, ... `count` steps apart.

    Γ_k / Γ_0 = (ρ p_k / 2) / (1 + ρ p_0): half of the mates k batches apart are in the later batch.
    For bursts drawn with replacement; see `epoch_autocorrelation` for each frame once.
    """
    return _correlations(rho * lags, count)


def epoch_autocorrelation(
    rho: float, lags: NDArray[np.float64], count: int, *, frames: int, batch_size: int
) -> NDArray[np.float64]:
    """Return `autocorrelation` for each frame once an epoch; see `epoch_inflation`.

    Slightly below 0 for lags without mates: frames of one batch are not in the next.
    """
    return _correlations(_epoch_terms(rho, lags, frames, batch_size), count)


def epoch_inflation(
    rho: float, lags: NDArray[np.float64], *, frames: int, batch_size: int, contraction: float
) -> float:
    """Return `sgd_inflation` for each frame once an epoch: `Bursts`, `ShuffledFrames`.

    Drawing without replacement makes frames that are not mates negatively correlated. With T = F/B
    batches in an epoch, N_0 = B - 1, N_k = 2B(1 - k/T), D = 1 + ρ Σ p and m = 1 + Σ p:

        1 + Σ (1-a)^k [ρ p_k - D/(F-m) · (N_k - p_k)]

    averaged over the epoch. Exact for a quadratic loss, an epoch of whole batches, and the same
    bursts in every epoch. `lags=[0]` is `ShuffledFrames`. Below 1: less noise than i.i.d. frames.
    """
    terms = _epoch_terms(rho, lags, frames, batch_size)
    return float(1 + (1 - contraction) ** np.arange(len(terms)) @ terms)


def _epoch_terms(
    rho: float, lags: NDArray[np.float64], frames: int, batch_size: int
) -> NDArray[np.float64]:
    """Return ρ p_k - D/(F-m) · (N_k - p_k) for each k in an epoch, as in `epoch_inflation`."""
    batches = frames // batch_size
    others = 2 * batch_size * (1 - np.arange(batches) / batches)
    others[0] = batch_size - 1
    mates = np.zeros(max(batches, len(lags)))
    mates[: len(lags)] = lags
    repulsion = (
        long_run_inflation(rho, lags) / (frames - 1 - lags.sum()) * (others - mates[:batches])
    )
    return np.asarray(rho * mates[:batches] - repulsion)


def _correlations(terms: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Convert the terms of a variance to correlations; term 0 is of the batch itself."""
    correlations = np.zeros(count)
    later = terms[1 : count + 1] / 2 / (1 + terms[0])
    correlations[: len(later)] = later
    return correlations


def _relative(frequency: NDArray[np.float64], frames: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return F·w of each cell: sampling frequency of its frames ÷ uniform frequency."""
    return np.asarray(frequency * (frames.sum() / (frequency @ frames)), np.float64)


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
    value = _anova(features, burst)
    subsets = [video != omitted for omitted in videos]
    replicates = [_fisher(_anova(features[rows], burst[rows])) for rows in subsets]
    error = sqrt((len(videos) - 1) * float(np.var(replicates)))
    center = _fisher(value)
    reach = student_975(len(videos) - 1) * error
    return RhoEstimate(value=value, low=tanh(center - reach), high=tanh(center + reach))


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
