"""Decode cost of samplers, computed from GOP lengths; derived in `docs/explanation/sampling.md`.

Assumes that every frame depends on all earlier frames of its GOP. Reordered and non-reference
frames change the numbers by a constant factor.
"""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.units import check_integers

_LONGEST_LOOKAHEAD = 131_072
"""Max requests; the planner reads all of them before the first batch."""


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
    droppable_share: float = 0.0
    """Share of disposable frames, in [0, 1), which are decoded only if they are delivered."""

    def __post_init__(self) -> None:
        seconds = (self.seconds_per_seek, self.seconds_per_decoded, self.seconds_per_delivered)
        if min(seconds) < 0 or sum(seconds) <= 0 or self.workers < 1:
            raise ConfigError(f"seconds must be >= 0, not all 0, and workers >= 1, got {self}")
        if not 0 <= self.droppable_share < 1:
            raise ConfigError(f"droppable_share must be in [0, 1), got {self.droppable_share}")

    def decoded(self, cost: DecodeCost) -> float:
        """Return the frames decoded per frame delivered, without skipped disposable frames.

        For an amplification A >= 1 and a droppable share s: A - s(A-1). Approximate: assumes that
        disposable frames are evenly distributed.
        """
        return cost.amplification - self.droppable_share * max(0.0, cost.amplification - 1)

    def throughput(self, cost: DecodeCost) -> float:
        """Return the frames per second of all workers, if decoding is the bottleneck."""
        # A frame that one decode delivers to two slots is converted once.
        converted = min(1.0, cost.amplification)
        seconds = (
            self.seconds_per_seek * cost.seeks
            + self.seconds_per_decoded * self.decoded(cost)
            + (self.seconds_per_delivered + self.seconds_per_packed) * converted
            + self.seconds_per_unpacked
        )
        return self.workers / seconds


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
