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
(measured by `rho_estimate.burst_correlation`). `docs/explanation/sampling.md` derives the formulas.
`assess` returns all three for a sampler and a set of videos, with the decode cost.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.bursts import Bursts
from headrace.sampling.decode_cost import DecodeCost, burst_cost, lookahead_cost
from headrace.sampling.frame_samplers import ShuffledFrames, UniformFrames
from headrace.sampling.rho_estimate import DEFAULT_RHO
from headrace.sampling.sampler import Sampler

LAGS: Final = 8
"""Max distance, in steps, of batches whose correlation `assess` returns."""


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """Predicted bias, variance and decode cost of a sampler; not measured."""

    bias_bound: float
    """Max error of the expected gradient, in σ of a frame's gradient. 0: unbiased."""
    design_effect: float
    """deff: variance of a batch mean ÷ variance with independent frames. Above 1: fewer effective
    frames."""
    inflation: float
    """D: the same ratio for the sum of infinitely many batches, as if drawn with replacement: the
    worst case."""
    inflation_at: float
    """D(a): the same ratio for SGD at a contraction. Below 1: less noise than independent
    frames."""
    autocorrelation: tuple[float, ...]
    """Γ_k ÷ Γ_0 for k = 1, 2, ... 8: correlation of the gradients of batches k steps apart. 0: as
    for independent frames; near 1: the later batch adds little information."""
    cost: DecodeCost
    """Frames decoded and seeks per frame delivered, and frames held."""
    held_bytes: int
    """Mean bytes of frames that wait for their batch, without the batches themselves."""


def assess(
    sampler: Sampler,
    gop_lengths: NDArray[np.int64],
    *,
    batch_size: int,
    lookahead: int | None = None,
    frame_bytes: int = 256 * 256 * 3,
    rho: float = DEFAULT_RHO,
    contraction: float = 0.01,
) -> Assessment:
    """Return the assessment of a sampler that is uniform over the frames of a set.

    Takes milliseconds for a million GOPs. Does not consider limits on held frames.

    Args:
        sampler: `UniformFrames()`, `ShuffledFrames()` or `Bursts(...)`.
        gop_lengths: int64 [GOPs]: `StreamIndex.gop_lengths` of all indexes, concatenated.
        batch_size: Frames in a batch, over all ranks.
        lookahead: Requests that are planned together; None: the minimum for the sampler, which is
            1, or for bursts the number with which each burst is decoded once.
        frame_bytes: Bytes of a waiting frame.
        rho: Correlation of the gradients of two frames of one burst.
        contraction: Step size times curvature, for `inflation_at`.

    Raises:
        ConfigError: another sampler, or `over` is not frames (see `bias_bound`), or a lookahead
            with which a burst would be decoded twice.
    """
    num_frames, size, min_lookahead = int(gop_lengths.sum()), 1, 1
    lags = np.zeros(1)
    if isinstance(sampler, Bursts):
        size = sampler.frames_per_burst
        min_lookahead = (size - 1) * sampler.lanes + 1
        lags = mate_lags(size, sampler.lanes, batch_size)
    elif not isinstance(sampler, UniformFrames | ShuffledFrames) or sampler.over != "frames":
        raise ConfigError(
            "only UniformFrames, ShuffledFrames and Bursts over frames can be assessed, "
            f"got {sampler}; `bias_bound` returns the bias of other frequencies"
        )
    lookahead = min_lookahead if lookahead is None else lookahead
    if lookahead < min_lookahead:
        raise ConfigError(f"lookahead must be >= {min_lookahead} for {sampler}, got {lookahead}")
    inflation = inflation_at = long_run_inflation(rho, lags)
    correlation = autocorrelation(rho, lags, LAGS)
    if not isinstance(sampler, UniformFrames) and num_frames > size and num_frames >= batch_size:
        epoch = {"frames": num_frames, "batch_size": batch_size}
        inflation_at = epoch_inflation(rho, lags, **epoch, contraction=contraction)
        correlation = epoch_autocorrelation(rho, lags, LAGS, **epoch)
    cost = _cost(sampler, gop_lengths, lookahead)
    return Assessment(
        bias_bound=0.0,  # each is uniform over frames in every slot
        design_effect=design_effect(rho, lags),
        inflation=inflation,
        inflation_at=inflation_at,
        autocorrelation=tuple(correlation.tolist()),
        cost=cost,
        held_bytes=int(cost.held_frames * frame_bytes),
    )


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


def _cost(sampler: Sampler, gop_lengths: NDArray[np.int64], lookahead: int) -> DecodeCost:
    if not isinstance(sampler, Bursts):
        return lookahead_cost(gop_lengths, lookahead)
    size, lanes = sampler.frames_per_burst, sampler.lanes
    # Bursts of one GOP inside one lookahead are decoded together: a window of bursts acts on the
    # bursts of a GOP as a window of frames acts on its frames. Compared with the planner, for GOPs
    # of 60 and of 1 to 119 frames and bursts of 2 to 16, the estimate is 0 to 12 % too low.
    bursts_ahead = 1 + (lookahead - (size - 1) * lanes - 1) // size
    alone = burst_cost(gop_lengths, size, lanes)
    units = np.maximum(1, np.round(gop_lengths / size)).astype(np.int64)
    planned, naive = lookahead_cost(units, bursts_ahead), lookahead_cost(units, 1)
    return DecodeCost(
        amplification=alone.amplification * planned.amplification / naive.amplification,
        seeks=alone.seeks * planned.seeks / naive.seeks,
        held_frames=alone.held_frames + size * planned.held_frames,
    )


def _relative(frequency: NDArray[np.float64], frames: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return F·w of each cell: sampling frequency of its frames ÷ uniform frequency."""
    return np.asarray(frequency * (frames.sum() / (frequency @ frames)), np.float64)
