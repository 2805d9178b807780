"""Comparison of sampling strategies: predicted speed and gradient noise of each.

Speed comes from GOP lengths (`decode_cost`) and a machine's decode times (`Speed`), noise from
`bias`. Costs are long-run averages: the first frames, one per GOP, cost what naive access costs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.bias import LAGS, Assessment, assess, autocorrelation, bias_bound, mate_lags
from headrace.sampling.bursts import Bursts
from headrace.sampling.clip_samplers import RandomClips
from headrace.sampling.decode_cost import DecodeCost, Speed
from headrace.sampling.frame_samplers import ShuffledFrames, UniformFrames
from headrace.sampling.rho_estimate import DEFAULT_RHO
from headrace.sampling.sampler import Sampler
from headrace.units import check_integers

_BATCHES_IN_MEMORY = 3
"""Batches in memory besides held frames: the caller's, the next, and the one in work."""

_BURST_SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Sizes of bursts to try, in frames."""

CostOf = Callable[[Sampler, int], DecodeCost]
"""Returns the cost of a sampler with a lookahead."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Memory for batches and held frames; `LookaheadWindow` derives it from bytes."""

    batch_size: int
    frame_bytes: int
    """Bytes of a frame at the model's input size, uint8 RGB."""
    later_frames: int
    """Different frames that may be held for later batches, at least 0."""
    lookahead: int
    """Requests that are planned together: as many as should fit."""
    lookahead_once: int
    """The same for frames that come once: all that wait are different, so fewer requests fit."""
    packed_bytes: int | None = None
    """Bytes of a frame that waits packed; None: frames wait as pixels."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Assumed correlation of frames, and the contraction of the optimiser."""

    rho: float = DEFAULT_RHO
    """Correlation of the gradients of two frames of one burst: `burst_correlation`."""
    contraction: float = 0.01
    """Step size times curvature of a direction, in (0, 1]."""

    def __post_init__(self) -> None:
        if not 0 <= self.rho <= 1:
            raise ConfigError(f"rho must be in [0, 1], got {self.rho}")
        if not 0 < self.contraction <= 1:
            raise ConfigError(f"contraction must be in (0, 1], got {self.contraction}")


@dataclass(frozen=True, kw_only=True)
class Strategy(Assessment):
    """One sampler with its lookahead, and its predicted speed and noise.

    `cost` is by formula, or simulated by its planner; `inflation_at` has the contraction of
    `Noise`.
    """

    name: str
    sampler: Sampler | None
    """The loader's `sampling`; None for one that headrace does not offer."""
    lookahead: int
    """The loader's `lookahead`."""
    budget: Budget
    speed: Speed
    words: str
    """Its description, in a sentence."""
    why_not: str = ""
    """Why it cannot be run here; empty if it can."""
    hold: Literal["rgb", "packed"] = "rgb"
    """The loader's `hold`."""

    @property
    def amplification(self) -> float:
        """Frames decoded per frame delivered. Near 1 is as cheap as reading in order."""
        return self.speed.decoded(self.cost)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the held frames, on average, and of three batches; without decoders."""
        held = min(self.cost.held_frames, self.budget.later_frames)
        batches = self.budget.frame_bytes * _BATCHES_IN_MEMORY * self.budget.batch_size
        return int((self.budget.packed_bytes or self.budget.frame_bytes) * held + batches)

    @property
    def frames_per_second(self) -> float:
        """Frames delivered per second, if decoding is the bottleneck."""
        return self.speed.throughput(self.cost)

    @property
    def is_feasible(self) -> bool:
        """Whether it can be run here."""
        return not self.why_not

    @property
    def is_sound(self) -> bool:
        """Whether it can be run here, and is unbiased."""
        return self.is_feasible and self.bias_bound == 0


def compare(
    gop_lengths: NDArray[np.int64],
    budget: Budget,
    speed: Speed,
    *,
    noise: Noise | None = None,
    target: float | None = None,
    frames_per_burst: int | None = None,
    cost_of: CostOf | None = None,
) -> tuple[Strategy, ...]:
    """Return the strategies for these videos, the simplest first.

    Bursts have 2, 3, 4, 6, 8, 12, ... 64 frames: the fewest that reach `target`; without one, the
    size with the least noise per second, inflation ÷ throughput, tried upwards until it grows.

    Args:
        gop_lengths: int64 [GOPs] of all videos.
        budget: Memory for batches.
        speed: Decode times.
        noise: Correlation of frames; None means `Noise()`.
        target: Frames per second of the model; None means as many as possible.
        frames_per_burst: Frames of a burst; None chooses them.
        cost_of: Cost of strategies with a lookahead. None means formulas: they take milliseconds
            for a million GOPs, and ignore the limit on memory (`planner.plan_simulation` has it).

    Raises:
        ConfigError: a batch is larger than the set, or `target` or `frames_per_burst` below 1.
    """
    if target is not None and not target >= 1:
        raise ConfigError(f"target must be >= 1, got {target}")
    check_integers(1, frames_per_burst=frames_per_burst)
    table = _Table(
        gop_lengths=gop_lengths,
        budget=budget,
        speed=speed,
        noise=noise or Noise(),
        cost_of=cost_of,
    )
    check_batch(budget.batch_size, table.frames)
    sizes = _BURST_SIZES if frames_per_burst is None else (frames_per_burst,)
    rows = [*table.exact(), _best_bursts(map(table.bursts, sizes), target)]
    return (*rows, table.keyframes()) if len(gop_lengths) < table.frames else tuple(rows)


def check_batch(batch_size: int, frames: int) -> None:
    """Check that a batch is not larger than the set.

    Raises:
        ConfigError: it is.
    """
    if batch_size > frames:
        raise ConfigError(
            f"a batch of {batch_size} is larger than the set: the videos have {frames} frames in "
            f"all; at most {frames} are possible"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Table:
    """Makes the strategies for one set of videos."""

    gop_lengths: NDArray[np.int64]
    budget: Budget
    speed: Speed
    noise: Noise
    cost_of: CostOf | None

    @property
    def frames(self) -> int:
        """Number of frames of all videos."""
        return int(self.gop_lengths.sum())

    def exact(self) -> list[Strategy]:
        """Return the strategies whose frames are independent, or shuffled."""
        ahead, once = self.budget.lookahead, self.budget.lookahead_once
        return [
            self._row(
                "naive",
                UniformFrames(),
                1,
                "each frame sought and decoded by itself: what every other row is held against",
            ),
            self._row(
                "look-ahead",
                UniformFrames(),
                ahead,
                f"the very same batches; a GOP is decoded once for all of the next {ahead:,} "
                "requests",
            ),
            self._row(
                "look-ahead, shuffled",
                ShuffledFrames(),
                once,
                f"an epoch is a shuffle of all frames, planned {once:,} requests ahead",
            ),
        ]

    def bursts(self, size: int) -> Strategy:
        """Return the strategy of bursts of `size` frames, one lane per frame of a batch."""
        lanes = self.budget.batch_size
        lookahead = max(self.budget.lookahead_once, (size - 1) * lanes + 1)
        inflation = 1 + (size - 1) * self.noise.rho
        (next_batch, *_) = autocorrelation(self.noise.rho, mate_lags(size, lanes, lanes), 1)
        return self._row(
            f"bursts of {size}",
            Bursts(frames_per_burst=size, lanes=lanes),
            lookahead,
            f"each frame once an epoch, {size} from one decoding, dealt {lanes} slots apart; over "
            f"many steps a batch of {lanes} is worth {lanes / inflation:.0f}, and its gradient "
            f"correlates with the next one's by {next_batch:.2f}",
            self._reason_against_bursts(size, lanes * (size - 1) // 2),
        )

    def keyframes(self) -> Strategy:
        """Return the biased strategy, as a warning."""
        gops = len(self.gop_lengths)
        others = self.frames - gops
        bound = bias_bound(np.array([1.0, 0.0]), np.array([gops, others]))
        words = (
            f"do not train on it: {100 * others / self.frames:.1f} % of frames are never shown, "
            f"and no weights make up for that; gradients may be off by up to {bound:.1f} σ"
        )
        return Strategy(
            **vars(replace(_INDEPENDENT, bias_bound=bound)),
            name="keyframes only",
            sampler=None,
            lookahead=1,
            budget=self.budget,
            speed=self.speed,
            words=words,
        )

    def _row(
        self, name: str, sampler: Sampler, lookahead: int, words: str, why_not: str = ""
    ) -> Strategy:
        assessment = assess(
            sampler,
            self.gop_lengths,
            batch_size=self.budget.batch_size,
            lookahead=lookahead,
            frame_bytes=self.budget.frame_bytes,
            rho=self.noise.rho,
            contraction=self.noise.contraction,
        )
        if self.cost_of is not None and lookahead > 1 and not why_not:
            assessment = replace(assessment, cost=self.cost_of(sampler, lookahead))
        return Strategy(
            **vars(assessment),
            name=name,
            sampler=sampler,
            lookahead=lookahead,
            budget=self.budget,
            speed=self.speed,
            words=words,
            why_not=why_not,
        )

    def _reason_against_bursts(self, size: int, waiting: float) -> str:
        budget = self.budget
        needed = budget.batch_size * (size + 1)
        if needed > self.frames:
            return (
                f"a batch of {budget.batch_size} in bursts of {size} needs {needed:,} frames, the "
                f"videos have {self.frames:,}"
            )
        if waiting > budget.later_frames:
            mebibytes = (waiting - budget.later_frames) * budget.frame_bytes / 2**20
            return f"{mebibytes:,.0f} MiB more memory are needed for frames that wait"
        return ""


_INDEPENDENT = Assessment(
    bias_bound=0.0,
    design_effect=1.0,
    inflation=1.0,
    inflation_at=1.0,
    autocorrelation=(0.0,) * LAGS,
    cost=DecodeCost(amplification=1, seeks=1, held_frames=0),
    held_bytes=0,
)
"""Assessment of independent keyframes."""


def _best_bursts(rows: Iterable[Strategy], target: float | None) -> Strategy:
    """Return the best of strategies whose bursts have more and more frames."""
    best: Strategy | None = None
    for row in rows:
        if best is None:
            best = row
        if not row.is_feasible:
            break
        if target is None:
            if row.inflation / row.frames_per_second > best.inflation / best.frames_per_second:
                break
            best = row
        else:
            best = max(best, row, key=lambda row: row.frames_per_second)
            if row.frames_per_second >= target:
                break
    assert best is not None
    return best


def compare_clips(
    clips: RandomClips, budget: Budget, speed: Speed, cost_of: CostOf
) -> tuple[Strategy, ...]:
    """Return the strategies for these clips, the simplest first.

    Clips are drawn independently, so noise is that of independent clips; each strategy is unbiased
    for the clips that its description names.

    Args:
        clips: The clips; each video once an epoch.
        budget: Memory for batches; its batch size is that of all frames of a batch of clips.
        speed: Decode times.
        cost_of: Returns the cost of a sampler with a lookahead.

    Raises:
        ConfigError: a video is too short for a clip, and not skipped.
    """
    ahead = budget.lookahead_once
    starts = replace(clips, each_once="starts")
    rows = (
        (
            "naive",
            clips,
            clips.num_frames,
            "each clip sought and decoded by itself: what every other row is held against",
        ),
        (
            "look-ahead",
            clips,
            ahead,
            "the very same batches, one clip of each video an epoch; a GOP is decoded once for all "
            f"of the next {ahead:,} frames",
        ),
        (
            "look-ahead, every start",
            starts,
            ahead,
            "an epoch is a shuffle of all starts, so that long videos give more clips, planned "
            f"{ahead:,} frames ahead",
        ),
    )
    return tuple(
        Strategy(
            **vars(replace(_INDEPENDENT, cost=cost_of(sampler, lookahead))),
            name=name,
            sampler=sampler,
            lookahead=lookahead,
            budget=budget,
            speed=speed,
            words=words,
        )
        for name, sampler, lookahead, words in rows
    )
