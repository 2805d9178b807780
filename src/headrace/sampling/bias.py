"""How far a way of sampling is from i.i.d. frames: bias, and what correlation does to gradients.

Three numbers tell it, because bias alone is cheap: reading in order from a uniform start has none.

- *bias*: how far the expected gradient is from the true one, in standard deviations σ of the
  gradient of a frame. 0 for every sampler here that is uniform over frames.
- *design effect*: variance of a batch mean ÷ that of i.i.d. frames. Above 1, a batch of B is worth
  B / design effect.
- *inflation*: the same for the sum over many batches, which is what an optimiser feels.

ρ is the correlation of the gradients of two *mates*, frames of one burst: E⟨h(x)-μ, h(y)-μ⟩ / σ²
(`estimate.burst_correlation` measures it). `docs/sampling.md` derives every formula.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError


def bias(
    frequency: NDArray[np.float64], frames: NDArray[np.int64], means: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return expected minus true gradient, float64 [D]: the covariance of frequency and gradient.

    Exact: E ĝ - ∇L = Cov(F·w, h) over a uniform frame. Frames are given in cells of equal
    frequency (videos, or places in a GOP).

    Args:
        frequency: [cells], how often a frame of the cell comes; any scale.
        frames: [cells], frames in each cell.
        means: [cells, D], mean gradient of each cell.
    """
    excess = frames / frames.sum() * (_relative(frequency, frames) - 1)
    return np.asarray(excess @ means, np.float64)


def bias_bound(frequency: NDArray[np.float64], frames: NDArray[np.int64]) -> float:
    """Return the largest bias that any gradients can have, in units of σ.

    It is the coefficient of variation of F·w (Cauchy-Schwarz), reached where the gradient is
    linear in the frequency. Arguments as for `bias`.
    """
    deviation = _relative(frequency, frames) - 1
    return float(np.sqrt(frames / frames.sum() @ deviation**2))


def unbiased_weights(
    frequency: NDArray[np.float64], frames: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the weight 1 / (F·w) of a frame of each cell that makes the weighted loss unbiased.

    Arguments as for `bias`.

    Raises:
        ConfigError: a cell is never sampled, so that no weighting can stand for it; sampling
            keyframes only is the common case.
    """
    if (frequency == 0).any():
        raise ConfigError(
            f"{frames[frequency == 0].sum()} of {frames.sum()} frames are never sampled; no "
            "weights remove that bias, every frame needs a chance"
        )
    return 1 / _relative(frequency, frames)


def mate_lags(frames_per_burst: int, lanes: int, batch_size: int) -> NDArray[np.float64]:
    """Return p: how many mates of a frame `Bursts` delivers k batches away, before and after.

    float64 [lags], k from 0, adding up to frames_per_burst - 1. Mates lie d · lanes slots apart,
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
    """Return ρ of bursts of m consecutive frames from that of frames k apart, k in [1, m).

    ρ = 2 / (m(m-1)) · Σ (m - k) r(k), so r(k) measured once gives ρ for every m. `correlation` is
    float64 [m - 1].
    """
    others = np.arange(len(correlation), 0, -1)
    return float(others @ correlation / others.sum())


def design_effect(rho: float, lags: NDArray[np.float64]) -> float:
    """Return variance of a batch mean ÷ that of i.i.d. frames: 1 + ρ p[0]. Source: Kish, 1965."""
    return 1 + rho * float(lags[0])


def long_run_inflation(rho: float, lags: NDArray[np.float64]) -> float:
    """Return variance ÷ i.i.d. of a sum over ever more batches: 1 + ρ Σ p = 1 + (m - 1) ρ.

    However far mates are spread, they are delivered: shuffling moves noise to lower frequencies,
    it removes none. For bursts drawn with replacement; `epoch_inflation` for each frame once.
    """
    return 1 + rho * float(lags.sum())


def sgd_inflation(rho: float, lags: NDArray[np.float64], contraction: float) -> float:
    """Return the stationary variance of SGD ÷ that under i.i.d. frames: 1 + ρ Σ (1-a)^k p[k].

    `contraction` is a = step size · curvature of a direction, in (0, 1]. Exact for a quadratic
    loss and bursts drawn with replacement. Near 1: the optimiser averages the bursts out before it
    moves.
    """
    return 1 + rho * float((1 - contraction) ** np.arange(len(lags)) @ lags)


def epoch_inflation(
    rho: float, lags: NDArray[np.float64], *, frames: int, batch_size: int, contraction: float
) -> float:
    """Return `sgd_inflation` where each frame comes once an epoch: `Bursts`, `Permutation`.

    Drawing without replacement makes frames that are not mates repel each other. With T = F/B
    batches in an epoch, N_0 = B - 1, N_k = 2B(1 - k/T), D = 1 + ρ Σ p and m = 1 + Σ p:

        1 + Σ (1-a)^k [ρ p_k - D/(F-m) · (N_k - p_k)]

    averaged over the epoch; exact for a quadratic loss, an epoch of whole batches and the same
    bursts every epoch. `lags=[0]` is `Permutation`. Below 1: less noise than i.i.d. frames.
    """
    batches = frames // batch_size
    others = 2 * batch_size * (1 - np.arange(batches) / batches)
    others[0] = batch_size - 1
    mates = np.zeros(max(batches, len(lags)))
    mates[: len(lags)] = lags
    repelled = (
        long_run_inflation(rho, lags) / (frames - 1 - lags.sum()) * (others - mates[:batches])
    )
    decay = (1 - contraction) ** np.arange(batches)
    return float(1 + decay @ (rho * mates[:batches] - repelled))


def _relative(frequency: NDArray[np.float64], frames: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return F·w of each cell: 1 where a frame comes as often as under uniform sampling."""
    return np.asarray(frequency * (frames.sum() / (frequency @ frames)), np.float64)
