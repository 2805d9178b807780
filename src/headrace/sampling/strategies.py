"""Comparison of sampling strategies: predicted speed and gradient noise of each.

Speed is computed from GOP lengths (`decode_cost`) and a machine's decode times (`Speed`), noise by
`bias`. Costs are long-run averages; the first frames, one per GOP, cost as much as naive access.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.bias import DEFAULT_RHO, LAGS, autocorrelation, bias_bound, mate_lags
from headrace.sampling.clip_samplers import RandomClips
from headrace.sampling.decode_cost import Assessment, DecodeCost, Speed, assess
from headrace.sampling.frame_samplers import Bursts, ShuffledFrames, UniformFrames
from headrace.sampling.sampler import Sampler
from headrace.units import check_integers

_BATCHES_IN_MEMORY = 3
"""Batches in memory besides held frames: the caller's, the next one, and the one being decoded."""

_BURST_SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Sizes of bursts to try, in frames."""

CostOf = Callable[[Sampler, int], DecodeCost]
"""(sampler, lookahead) → decode cost."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Memory for batches and held frames; `LookaheadWindow` derives it from bytes."""

    batch_size: int
    frame_bytes: int
    """Bytes of a frame at the model's input size, uint8 RGB."""
    later_frames: int
    """Max distinct frames held for later batches, >= 0."""
    lookahead: int
    """Requests that are planned together: as many as are expected to fit."""
    lookahead_once: int
    """Requests that are planned together if frames do not repeat: fewer, because all waiting frames
    are distinct."""
    packed_bytes: int | None = None
    """Bytes of a packed waiting frame; None: frames wait as pixels."""


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
    """Sampler with a lookahead, and its predicted speed and noise.

    `cost` is computed by formula or simulated by the planner; `inflation_at` is for the contraction
    of `Noise`.
    """

    name: str
    sampler: Sampler | None
    """Option `sampling` of the loader; None: headrace has no such sampler."""
    lookahead: int
    """Option `lookahead` of the loader."""
    budget: Budget
    speed: Speed
    words: str
    """Description, in a sentence."""
    why_not: str = ""
    """Reason why it cannot run here; empty: it can."""
    hold: Literal["rgb", "packed"] = "rgb"
    """Option `hold` of the loader."""

    @property
    def amplification(self) -> float:
        """Frames decoded per frame delivered. Near 1 is as cheap as reading in order."""
        return self.speed.decoded(self.cost)

    @property
    def memory_bytes(self) -> int:
        """Mean bytes of the held frames, plus three batches, without decoders."""
        held = min(self.cost.held_frames, self.budget.later_frames)
        batches = self.budget.frame_bytes * _BATCHES_IN_MEMORY * self.budget.batch_size
        return int((self.budget.packed_bytes or self.budget.frame_bytes) * held + batches)

    @property
    def frames_per_second(self) -> float:
        """Frames delivered per second with a full lookahead, if the loader is the bottleneck."""
        return self.speed.throughput(self.cost)

    @property
    def first_epoch_frames_per_second(self) -> float:
        """Mean frames per second of a loader's first epoch, which begins with one batch planned."""
        return self.speed.throughput(self.cost.first_epoch or self.cost)

    @property
    def is_feasible(self) -> bool:
        """Whether it can run here."""
        return not self.why_not

    @property
    def is_sound(self) -> bool:
        """Whether it can run here, and is unbiased."""
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

    Bursts have 2, 3, 4, 6, 8, 12, ... 64 frames: the smallest size that reaches `target`; without a
    target, the size with the least noise per second, inflation ÷ throughput.

    Args:
        gop_lengths: int64 [GOPs] of all videos.
        budget: Memory for batches.
        speed: Decode times.
        noise: Correlation of frames; None: `Noise()`.
        target: Frames per second of the model; None: as many as possible.
        frames_per_burst: Frames of a burst; None: chosen as above.
        cost_of: Cost of strategies with a lookahead. None: formulas, which take milliseconds for a
            million GOPs, and do not consider the memory limit (`planner.strategy_cost` does).

    Raises:
        ConfigError: a batch is larger than the dataset, or `target` or `frames_per_burst` is below
            1.
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
    """Check that a batch is not larger than the dataset.

    Raises:
        ConfigError: it is larger.
    """
    if batch_size > frames:
        raise ConfigError(
            f"a batch of {batch_size} is larger than the set: the videos have {frames} frames in "
            f"all; at most {frames} are possible"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Table:
    """Creates the strategies for one set of videos."""

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
        """Return the strategies with independent or shuffled frames."""
        ahead, once = self.budget.lookahead, self.budget.lookahead_once
        return [
            self._row(
                "naive",
                UniformFrames(),
                1,
                "each frame is sought and decoded by itself: the baseline for all other rows",
            ),
            self._row(
                "look-ahead",
                UniformFrames(),
                ahead,
                f"the same batches; a GOP is decoded once for all of the next {ahead:,} requests",
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
            f"each frame once per epoch, {size} from one decode, {lanes} slots apart; over many "
            f"steps the effective size of a batch of {lanes} is {lanes / inflation:.0f}, and the "
            f"correlation of its gradient with the next one's is {next_batch:.2f}",
            self._reason_against_bursts(size, lanes * (size - 1) // 2),
        )

    def keyframes(self) -> Strategy:
        """Return the strategy that samples keyframes only; biased, shown as a warning."""
        gops = len(self.gop_lengths)
        others = self.frames - gops
        bound = bias_bound(np.array([1.0, 0.0]), np.array([gops, others]))
        words = (
            f"do not train with it: {100 * others / self.frames:.1f} % of frames are never "
            f"sampled, which no weights can correct; gradients may be off by up to {bound:.1f} σ"
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
    """Return the best of strategies with bursts of increasing size."""
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

    Clips are drawn independently, so the noise is that of independent clips. Each strategy is
    unbiased for the clips in its description.

    Args:
        clips: Clips, with each video once per epoch.
        budget: Memory for batches; its batch size counts all frames of a batch of clips.
        speed: Decode times.
        cost_of: Cost of a sampler with a lookahead.

    Raises:
        ConfigError: a video is too short for a clip, and is not skipped.
    """
    ahead = budget.lookahead_once
    starts = replace(clips, each_once="starts")
    rows = (
        (
            "naive",
            clips,
            clips.num_frames,
            "each clip is sought and decoded by itself: the baseline for all other rows",
        ),
        (
            "look-ahead",
            clips,
            ahead,
            "the same batches, one clip of each video per epoch; a GOP is decoded once for all of "
            f"the next {ahead:,} frames",
        ),
        (
            "look-ahead, every start",
            starts,
            ahead,
            "an epoch is a shuffle of all starts, so that long videos have more clips, planned "
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
