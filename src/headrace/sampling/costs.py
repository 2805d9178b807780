"""What a way of sampling costs to decode, from GOP lengths alone; `docs/sampling.md` derives it.

Every frame is taken to depend on all frames of its GOP before it. Reordered and non-reference
frames change the figures by a constant factor.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DecodeCost:
    """Expected cost of one delivered frame, in the long run."""

    amplification: float
    """Frames decoded per frame delivered. Near 1 is as cheap as reading in order; below 1 only
    where the same frame is delivered twice from one decoding."""
    seeks: float
    """Jumps to a keyframe per frame delivered."""
    held_frames: float
    """Decoded frames that wait for their slot, on average; times the bytes of a frame, memory."""


def lookahead_cost(gop_lengths: NDArray[np.int64], lookahead: int) -> DecodeCost:
    """Return the cost of independent uniform frames under a sliding look-ahead.

    A frame that is due and not held has its GOP decoded once, and all requests for that GOP among
    the next `lookahead - 1` slots are kept from it. Such decodings of GOP j renew themselves every
    K - 1 + 1/p slots on average, p = g/F, K = `lookahead`. Exact, with the sums over GOPs:

        seeks = Σ p / (1 + (K-1)p)
        amplification = Σ p / (1 + (K-1)p) · Σ_{l=1..g} [1 - (1 - l/g)(1 - l/F)^(K-1)]
        held_frames = Σ p / (1 + (K-1)p) · (K-1)p · K/2          (Little's law)

    `lookahead=1` is naive random access: amplification (Σ g²/F + 1) / 2, one seek a frame. For
    `Permutation` the error is O(K/F). Start-up, some F/g frames at the naive cost, is left out.
    """
    _check(gop_lengths, "lookahead", lookahead)
    length, count = np.unique(gop_lengths, return_counts=True)
    total = int(gop_lengths.sum())
    share = length / total
    events = count * share / (1 + (lookahead - 1) * share)
    span = np.arange(1, length[-1] + 1)
    nobody_else = (1 - span / total) ** (lookahead - 1)
    unread = np.cumsum(nobody_else) - np.cumsum(span * nobody_else) / span
    return DecodeCost(
        amplification=float(events @ (length - unread[length - 1])),
        seeks=float(events.sum()),
        held_frames=float(events @ share * (lookahead - 1) * lookahead / 2),
    )


def block_cost(
    gop_lengths: NDArray[np.int64], block: int, *, each_once: bool = False
) -> DecodeCost:
    """Return the cost of uniform frames in blocks of `block` slots, each GOP once per block.

    With q(l) the probability that none of l given frames is asked for in a block of K slots,
    (1 - l/F)^K for independent frames and C(F-l, K) / C(F, K) for each frame once. Exact:

        amplification = Σ Σ_{l=1..g} [1 - q(l)] / K,   seeks = Σ [1 - q(g)] / K
        held_frames = (K+1)/K · Σ E[n/2 - n/(n+1)],    n requests for the GOP in the block

    where a GOP is decoded when the first of its frames is due.
    Source: Cardenas, CACM 18, 1975 (independent); Yao, CACM 20, 1977 (each once).

    Raises:
        ConfigError: `each_once`, and the block is longer than an epoch.
    """
    _check(gop_lengths, "block", block)
    length, count = np.unique(gop_lengths, return_counts=True)
    total, longest = int(gop_lengths.sum()), int(length[-1])
    if each_once and block > total:
        raise ConfigError(f"each of {total} frames comes once, so a block cannot hold {block}")
    if each_once:
        nobody = _missed(total, block, longest)
        missed_next = _missed(total + 1, block + 1, longest + 1)[length]
        inverse = (total + 1) / (length + 1) * (1 - missed_next) / (block + 1)
    else:
        nobody = (1 - np.arange(1, longest + 1) / total) ** block
        inverse = total / length * (1 - (1 - length / total) ** (block + 1)) / (block + 1)
    # `inverse` is E[1 / (n + 1)], so that E[n/2 - n/(n+1)] is E[n]/2 - 1 + inverse.
    waits = block * length / total / 2 - 1 + inverse
    return DecodeCost(
        amplification=float(count @ (length - np.cumsum(nobody)[length - 1]) / block),
        seeks=float(count @ (1 - nobody[length - 1]) / block),
        held_frames=float(count @ waits * (block + 1) / block),
    )


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


def _missed(total: int, drawn: int, longest: int) -> NDArray[np.float64]:
    """Return C(total - l, drawn) / C(total, drawn) for l in [1, longest]."""
    taken = np.arange(longest)
    kept = np.maximum(0, total - drawn - taken) / np.maximum(1, total - taken)
    return np.asarray(np.cumprod(kept), np.float64)


def _check(gop_lengths: NDArray[np.int64], name: str, value: int) -> None:
    if value < 1:
        raise ConfigError(f"{name} must be >= 1, got {value}")
    if not len(gop_lengths) or gop_lengths.min() < 1:
        raise ConfigError("GOPs of at least one frame each are needed to tell a cost")
