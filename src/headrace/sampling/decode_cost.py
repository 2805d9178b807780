"""Decode cost and assessment of samplers, computed from GOP lengths.

The formulas are derived in `docs/explanation/sampling.md`.

Assumes that every frame depends on all earlier frames of its GOP. Reordered and non-reference
frames change the numbers by a constant factor.
"""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.bias import (
    DEFAULT_RHO,
    LAGS,
    autocorrelation,
    design_effect,
    epoch_autocorrelation,
    epoch_inflation,
    long_run_inflation,
    mate_lags,
)
from headrace.sampling.frame_samplers import Bursts, ShuffledFrames, UniformFrames
from headrace.sampling.sampler import Sampler
from headrace.units import check_integers

_LONGEST_LOOKAHEAD = 131_072
"""Max requests; the planner reads all of them before the first batch."""


@dataclass(frozen=True, kw_only=True)
class FirstEpoch:
    """Mean cost per frame of a loader's first epoch, whose lookahead begins with one batch."""

    amplification: float
    """As in `DecodeCost`."""
    seeks: float
    """As in `DecodeCost`."""
    frames: int
    """Frames delivered in an epoch, over all clips."""


@dataclass(frozen=True, kw_only=True)
class DecodeCost:
    """Expected cost per delivered frame, in the long run."""

    amplification: float
    """Frames decoded per frame delivered. Near 1: as cheap as reading in order. Below 1: some
    decodes deliver the same frame twice."""
    seeks: float
    """Seeks to a keyframe per frame delivered."""
    held_frames: float
    """Mean number of distinct decoded frames that wait for their slot; a frame for several slots is
    held once. Memory: this times the bytes of a frame."""
    first_epoch: FirstEpoch | None = None
    """The first epoch; None: not simulated."""


def lookahead_cost(gop_lengths: NDArray[np.int64], lookahead: int) -> DecodeCost:
    """Return the cost of independent uniform frames with a sliding lookahead.

    When a frame is due and not held, its GOP is decoded once, and the frames for all requests of
    that GOP in the next `lookahead - 1` slots are held. A GOP is decoded every K - 1 + 1/p slots on
    average, p = g/F, K = `lookahead`. Exact, with sums over GOPs and with q = 1 - 1/F, the
    probability that a slot does not request a given frame:

        seeks = Σ p / (1 + (K-1)p)
        amplification = Σ p / (1 + (K-1)p) · Σ_{l=1..g} [1 - (1 - l/g)(1 - l/F)^(K-1)]
        held_frames = Σ p / (1 + (K-1)p) · g [(K-1) - (q - q^K) / (1 - q)]

    `lookahead=1` is naive random access: amplification (Σ g²/F + 1) / 2, one seek per frame. The
    start, about F/g frames at the naive cost, is not included. Simulated `ShuffledFrames` had
    decodes and seeks within 5 % of these, and held 3, 9 and 22 % more frames at K/F = 0.1, 0.3 and
    1, because no frame repeats.
    """
    _check(gop_lengths, "lookahead", lookahead)
    length, count = _distinct(gop_lengths)
    total = int(gop_lengths.sum())
    share = length / total
    events = count * share / (1 + (lookahead - 1) * share)
    span = np.arange(1, length[-1] + 1)
    unrequested = (1 - span / total) ** (lookahead - 1)
    unread = np.cumsum(unrequested) - np.cumsum(span * unrequested) / span
    return DecodeCost(
        amplification=float(events @ (length - unread[length - 1])),
        seeks=float(events.sum()),
        held_frames=_held_frames(length, count, lookahead),
    )


def lookahead_for(gop_lengths: NDArray[np.int64], frames: int, *, each_once: bool = False) -> int:
    """Return the longest lookahead that holds at most `frames` frames on average.

    At most 131072, because the planner reads that far before the first batch. For independent
    uniform frames; with `each_once`, for frames that do not repeat in a window, so that all waiting
    frames are distinct. The number of held frames varies around its mean. Takes milliseconds for a
    million GOPs.

    Raises:
        ConfigError: there is no GOP, or `frames` is below 1.
    """
    _check(gop_lengths, "frames", frames)
    length, count = _distinct(gop_lengths)
    possible = range(1, _LONGEST_LOOKAHEAD + 1)
    mean_held = _waiting_requests if each_once else _held_frames
    return bisect_right(possible, float(frames), key=lambda k: mean_held(length, count, k))


def burst_cost(gop_lengths: NDArray[np.int64], frames_per_burst: int, lanes: int) -> DecodeCost:
    """Return the cost of `Bursts(frames_per_burst, lanes)`, each burst decoded by itself.

    A GOP of g frames has n = g // m bursts that end r + m, r + 2m, ..., g frames after its start,
    and before them a remainder of r = g mod m frames. A remainder in which a burst of remainders
    ends is cut there, after i frames. Exact, with sums over GOPs and over cuts:

        amplification = [Σ (r + n·r + m·n(n+1)/2) + Σ i] / F
        seeks = [Σ (n + (1 if r > 0)) + Σ 1] / F
        held_frames = lanes · (m - 1) / 2

    So amplification is near (g/m + 1) / 2. Not included: ends of lanes cut at most lanes + 1 more
    bursts per epoch, and bursts of a GOP inside one lookahead are decoded together.
    """
    _check(gop_lengths, "frames_per_burst", frames_per_burst)
    total, size = int(gop_lengths.sum()), frames_per_burst
    bursts, remainder = np.divmod(gop_lengths, size)
    # Frames of each remainder before the next border between bursts of remainders.
    before_cut = -(np.cumsum(remainder) - remainder) % size
    is_cut = (before_cut > 0) & (before_cut < remainder)
    decoded = remainder + bursts * remainder + size * bursts * (bursts + 1) // 2
    return DecodeCost(
        amplification=float(decoded.sum() + before_cut[is_cut].sum()) / total,
        seeks=float(bursts.sum() + (remainder > 0).sum() + is_cut.sum()) / total,
        held_frames=lanes * (size - 1) / 2,
    )


def _waiting_requests(length: NDArray[np.int64], count: NDArray[np.int64], lookahead: int) -> float:
    """Return the mean number of requests that wait for their slot, including repeated ones.

    At every decode, p (K-1) requests start to wait, for K/2 slots on average:
    Σ p / (1 + (K-1)p) · (K-1)p · K/2.
    """
    share = length / float(length @ count)
    waiting = (lookahead - 1) * share
    return float(count @ (share / (1 + waiting) * waiting) * lookahead / 2)


def _held_frames(length: NDArray[np.int64], count: NDArray[np.int64], lookahead: int) -> float:
    """Return `DecodeCost.held_frames` of a lookahead; it increases with the lookahead.

    u slots after its GOP was decoded, a frame waits if one of K - u remaining slots requests it.
    """
    total = int(length @ count)
    share = length / total
    events = count * share / (1 + (lookahead - 1) * share)
    another = 1 - 1 / total
    waits = lookahead - 1 - total * (another - another**lookahead)
    return float(events @ length) * waits


def _distinct(gop_lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct lengths, ascending, and the number of GOPs of each."""
    count = np.bincount(gop_lengths)
    length = np.flatnonzero(count)
    return length, count[length]


def _check(gop_lengths: NDArray[np.int64], name: str, value: int) -> None:
    check_integers(1, **{name: value})
    if not len(gop_lengths) or gop_lengths.min() < 1:
        raise ConfigError("gop_lengths must have at least one GOP, each of one frame or more")


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Decode times of one worker for similar videos, while all workers are busy."""

    seconds_per_seek: float
    """Seconds to enter a GOP: create a codec, seek, and open the file if it is closed."""
    seconds_per_decoded: float
    """Seconds to decode one more frame."""
    seconds_per_delivered: float
    """Seconds to convert a decoded frame to a small RGB frame."""
    workers: int
    """Number of threads that decode in parallel."""
    seconds_per_packed: float = 0.0
    """Seconds to pack a waiting frame; 0: frames wait as pixels."""
    seconds_per_unpacked: float = 0.0
    """Seconds to unpack a due frame."""
    seconds_per_collated: float = 0.0
    """Seconds to plan a due frame and write it to its batch, which one thread does for all."""
    droppable_share: float = 0.0
    """Share of disposable frames, in [0, 1), which are decoded only if they are delivered."""

    def __post_init__(self) -> None:
        seconds = (self.seconds_per_seek, self.seconds_per_decoded, self.seconds_per_delivered)
        if min(seconds) < 0 or sum(seconds) <= 0 or self.workers < 1:
            raise ConfigError(f"seconds must be >= 0, not all 0, and workers >= 1, got {self}")
        if not 0 <= self.droppable_share < 1:
            raise ConfigError(f"droppable_share must be in [0, 1), got {self.droppable_share}")

    def decoded(self, cost: DecodeCost | FirstEpoch) -> float:
        """Return the frames decoded per frame delivered, without skipped disposable frames.

        For an amplification A >= 1 and a droppable share s: A - s(A-1). Approximate: assumes that
        disposable frames are evenly distributed.
        """
        return cost.amplification - self.droppable_share * max(0.0, cost.amplification - 1)

    def throughput(self, cost: DecodeCost | FirstEpoch) -> float:
        """Return the frames per second of all workers, if the loader is the bottleneck."""
        # A frame that one decode delivers to two slots is converted once.
        converted = min(1.0, cost.amplification)
        seconds = (
            self.seconds_per_seek * cost.seeks
            + self.seconds_per_decoded * self.decoded(cost)
            + (self.seconds_per_delivered + self.seconds_per_packed) * converted
            + self.seconds_per_unpacked
            + self.seconds_per_collated
        )
        return 1 / max(seconds / self.workers, self.seconds_per_collated)


def share_out(counts: NDArray[np.float64], seconds: NDArray[np.float64]) -> list[float]:
    """Return the seconds of each kind of event, >= 0, fitted to measured runs.

    Least squares of relative errors, so that a single delay has little weight. Kinds with negative
    fitted times are dropped.

    Args:
        counts: float64 [runs, kinds]: events of each kind in each run.
        seconds: float64 [runs], above 0: duration of each run.
    """
    rows = counts / seconds[:, None]
    fitted = np.zeros(counts.shape[1])
    used = np.flatnonzero(counts.any(axis=0))
    while len(used):
        solution = np.linalg.lstsq(rows[:, used], np.ones(len(rows)), rcond=None)[0]
        if solution.min() >= 0:
            fitted[used] = solution
            break
        used = np.delete(used, solution.argmin())
    return [float(value) for value in fitted]


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
