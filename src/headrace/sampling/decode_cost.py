"""Decode cost of a sampling strategy, from GOP lengths; `docs/explanation/sampling.md` derives it.

Every frame is taken to depend on all frames of its GOP before it. Reordered and non-reference
frames change the figures by a constant factor.
"""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.units import check_integers

_LONGEST_LOOKAHEAD = 131_072


@dataclass(frozen=True, kw_only=True)
class DecodeCost:
    """Expected cost of one delivered frame, in the long run."""

    amplification: float
    """Frames decoded per frame delivered. Near 1 is as cheap as reading in order; below 1 only
    where the same frame is delivered twice from one decoding."""
    seeks: float
    """Jumps to a keyframe per frame delivered."""
    held_frames: float
    """Different decoded frames that wait for their slot, on average; times the bytes of a frame, it
    is memory. A frame that several slots want is held once."""


def lookahead_cost(gop_lengths: NDArray[np.int64], lookahead: int) -> DecodeCost:
    """Return the cost of independent uniform frames under a sliding look-ahead.

    A frame that is due and not held has its GOP decoded once, and all requests for that GOP among
    the next `lookahead - 1` slots are kept from it. Such decodings of GOP j renew themselves every
    K - 1 + 1/p slots on average, p = g/F, K = `lookahead`. Exact, with the sums over GOPs and with
    q = 1 - 1/F, the probability that a slot wants another frame than a given one:

        seeks = Σ p / (1 + (K-1)p)
        amplification = Σ p / (1 + (K-1)p) · Σ_{l=1..g} [1 - (1 - l/g)(1 - l/F)^(K-1)]
        held_frames = Σ p / (1 + (K-1)p) · g [(K-1) - (q - q^K) / (1 - q)]

    `lookahead=1` is naive random access: amplification (Σ g²/F + 1) / 2, one seek a frame. The
    start, some F/g frames at the naive cost, is left out. A simulation of `ShuffledFrames` decoded
    and sought within 5 % of it, and held 3, 9 and 22 % more at K/F = 0.1, 0.3 and 1, because
    nothing repeats.
    """
    _check(gop_lengths, "lookahead", lookahead)
    length, count = _distinct(gop_lengths)
    total = int(gop_lengths.sum())
    share = length / total
    events = count * share / (1 + (lookahead - 1) * share)
    span = np.arange(1, length[-1] + 1)
    nobody_else = (1 - span / total) ** (lookahead - 1)
    unread = np.cumsum(nobody_else) - np.cumsum(span * nobody_else) / span
    return DecodeCost(
        amplification=float(events @ (length - unread[length - 1])),
        seeks=float(events.sum()),
        held_frames=_held_frames(length, count, lookahead),
    )


def lookahead_for(gop_lengths: NDArray[np.int64], frames: int, *, each_once: bool = False) -> int:
    """Return the longest look-ahead that holds at most `frames` frames on average.

    In [1, 131072]: the planner reads that far before the first batch. For independent uniform
    frames, or with `each_once` for frames that do not repeat in a window, where all that wait are
    different; what is held swings around its average. Takes milliseconds for a million GOPs.

    Raises:
        ConfigError: there is no GOP, or `frames` is below 1.
    """
    _check(gop_lengths, "frames", frames)
    length, count = _distinct(gop_lengths)
    possible = range(1, _LONGEST_LOOKAHEAD + 1)
    held = _waiting_requests if each_once else _held_frames
    return bisect_right(possible, float(frames), key=lambda k: held(length, count, k))


def burst_cost(gop_lengths: NDArray[np.int64], frames_per_burst: int, lanes: int) -> DecodeCost:
    """Return the cost of `Bursts(frames_per_burst, lanes)`, each burst decoded by itself.

    A GOP of g frames holds n = g // m bursts that end r + m, r + 2m, ..., g frames after its
    keyframe, and r = g mod m left-overs before them. Those are cut where a burst of left-overs
    ends, i of them before the cut. Exact, with the sums over GOPs and over cuts:

        amplification = [Σ (r + n·r + m·n(n+1)/2) + Σ i] / F
        seeks = [Σ (n + (1 if r > 0)) + Σ 1] / F
        held_frames = lanes · (m - 1) / 2

    So amplification is near (g/m + 1) / 2. Not counted: ends of lanes cut at most lanes + 1 bursts
    more each epoch, and bursts of a GOP that meet in the planner's look-ahead are decoded as one.
    """
    _check(gop_lengths, "frames_per_burst", frames_per_burst)
    total, size = int(gop_lengths.sum()), frames_per_burst
    bursts, left_over = np.divmod(gop_lengths, size)
    # The first of the left-overs that stands at or behind a border between bursts.
    before_cut = -(np.cumsum(left_over) - left_over) % size
    is_cut = (before_cut > 0) & (before_cut < left_over)
    decoded = left_over + bursts * left_over + size * bursts * (bursts + 1) // 2
    return DecodeCost(
        amplification=float(decoded.sum() + before_cut[is_cut].sum()) / total,
        seeks=float(bursts.sum() + (left_over > 0).sum() + is_cut.sum()) / total,
        held_frames=lanes * (size - 1) / 2,
    )


def _waiting_requests(length: NDArray[np.int64], count: NDArray[np.int64], lookahead: int) -> float:
    """Return how many requests wait for their slot, those for the same frame counted each.

    At every decoding p (K-1) wait, for K/2 slots on average: Σ p / (1 + (K-1)p) · (K-1)p · K/2.
    """
    share = length / float(length @ count)
    waiting = (lookahead - 1) * share
    return float(count @ (share / (1 + waiting) * waiting) * lookahead / 2)


def _held_frames(length: NDArray[np.int64], count: NDArray[np.int64], lookahead: int) -> float:
    """Return `DecodeCost.held_frames` of a look-ahead; it grows with the look-ahead.

    u slots after its GOP was decoded, a frame waits if one of the K - u slots left wants it.
    """
    total = int(length @ count)
    share = length / total
    events = count * share / (1 + (lookahead - 1) * share)
    another = 1 - 1 / total
    waits = lookahead - 1 - total * (another - another**lookahead)
    return float(events @ length) * waits


def _distinct(gop_lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lengths there are, ascending, and how many GOPs have each."""
    count = np.bincount(gop_lengths)
    length = np.flatnonzero(count)
    return length, count[length]


def _check(gop_lengths: NDArray[np.int64], name: str, value: int) -> None:
    check_integers(1, **{name: value})
    if not len(gop_lengths) or gop_lengths.min() < 1:
        raise ConfigError("GOPs of at least one frame each are needed to tell a cost")


@dataclass(frozen=True, kw_only=True)
class Speed:
    """What one worker needs for videos of one kind, while all workers are busy."""

    seconds_per_seek: float
    """To enter a GOP: make a codec, seek, and open the file where it is not kept open."""
    seconds_per_decoded: float
    """To decode one more frame."""
    seconds_per_delivered: float
    """To make a decoded frame a small RGB one."""
    workers: int
    """Threads that decode at the same time."""
    droppable_share: float = 0.0
    """Share of frames, in [0, 1), that stay undecoded unless they are asked for themselves."""

    def __post_init__(self) -> None:
        seconds = (self.seconds_per_seek, self.seconds_per_decoded, self.seconds_per_delivered)
        if min(seconds) < 0 or sum(seconds) <= 0 or self.workers < 1:
            raise ConfigError(f"seconds must be >= 0, not all 0, and workers >= 1, got {self}")
        if not 0 <= self.droppable_share < 1:
            raise ConfigError(f"droppable_share must be in [0, 1), got {self.droppable_share}")

    def decoded(self, cost: DecodeCost) -> float:
        """Return the frames decoded per frame delivered, without those that may be left out.

        Of the frames that are passed and not delivered, the droppable ones are skipped: A - s(A-1)
        for an amplification A >= 1. Takes them to lie evenly, hence approximate.
        """
        passed = max(0.0, cost.amplification - 1)
        return cost.amplification - self.droppable_share * passed

    def throughput(self, cost: DecodeCost) -> float:
        """Return the frames delivered per second by all workers, when nothing else is slower."""
        # A frame that two slots want from one decoding is converted once.
        converted = min(1.0, cost.amplification)
        seconds = (
            self.seconds_per_seek * cost.seeks
            + self.seconds_per_decoded * self.decoded(cost)
            + self.seconds_per_delivered * converted
        )
        return self.workers / seconds
