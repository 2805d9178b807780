"""Strategies: ways to draw batches from videos side by side, each with its speed and its noise.

Speed comes from GOP lengths (`costs`) and a machine's constants (`speed`), noise from `bias`.
Costs are those of the long run: the first frames, one for each GOP, cost what naive access costs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.bias import LAGS, Assessment, assess, autocorrelation, bias_bound, mate_lags
from headrace.sampling.bursts import Bursts
from headrace.sampling.clip_samplers import RandomClips
from headrace.sampling.decode_cost import DecodeCost, Speed
from headrace.sampling.frame_samplers import ShuffledFrames, UniformFrames
from headrace.sampling.rho_estimate import TAKEN_RHO
from headrace.sampling.sampler import Sampler
from headrace.units import check_integers

_BATCHES_SET_ASIDE = 3
"""Batches in memory besides what is held for later: the caller's, the next, the one being made."""

_BURSTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)

CostOf = Callable[[Sampler, int], DecodeCost]
"""Tells what a sampler costs under a look-ahead."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What batches are made in; `training.window.Window` derives it from bytes."""

    batch_size: int
    frame_bytes: int
    """Bytes of a frame at the size of the model, uint8 RGB."""
    later_frames: int
    """Different frames that may be held for batches to come, at least 0."""
    lookahead: int
    """Requests that are planned together, as many as are expected to fit."""
    lookahead_once: int
    """The same where frames come once: all that wait are different, so fewer requests fit."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What the correlation of frames is taken to be, and what feels it."""

    rho: float = TAKEN_RHO
    """Correlation of the gradients of two frames of one burst; `estimate.burst_correlation`."""
    contraction: float = 0.01
    """Step size times curvature of the direction that is looked at, in (0, 1]."""

    def __post_init__(self) -> None:
        if not 0 <= self.rho <= 1:
            raise ConfigError(f"rho is a correlation in [0, 1], got {self.rho}")
        if not 0 < self.contraction <= 1:
            raise ConfigError(f"contraction must be in (0, 1], got {self.contraction}")


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One way to draw batches, and what is predicted of it."""

    name: str
    sampler: Sampler | None
    """What to give a loader as `sampling`; None for a way that headrace does not offer."""
    lookahead: int
    """What to give it as `lookahead`."""
    cost: DecodeCost
    """What it decodes and holds: by formula, or as its planning was rehearsed."""
    budget: Budget
    speed: Speed
    bias_bound: float
    """How far the expected gradient may be off, in σ of a frame's gradient. 0 is unbiased."""
    design_effect: float
    """Variance of a batch ÷ that of independent frames. Above 1 a batch is worth less."""
    inflation: float
    """The same over ever more batches, taken as if drawn with replacement: the worst case."""
    autocorrelation: tuple[float, ...]
    """How the gradients of batches 1, 2, ... 8 steps apart correlate. 0 as for independent frames;
    near 1 the next batch says little that is new."""
    inflation_at: float
    """The same as SGD feels it at the contraction of `Noise`; below 1 is calmer than i.i.d."""
    words: str
    """What it is, in a sentence."""
    why_not: str = ""
    """Why it cannot be run here; empty if it can."""

    @property
    def amplification(self) -> float:
        """Frames decoded per frame delivered. Near 1 is as cheap as reading in order."""
        return self.speed.decoded(self.cost)

    @property
    def memory_bytes(self) -> int:
        """Frames held on average, and three batches; decoders come on top."""
        held = min(self.cost.held_frames, self.budget.later_frames)
        return int(self.budget.frame_bytes * (held + _BATCHES_SET_ASIDE * self.budget.batch_size))

    @property
    def frames_per_second(self) -> float:
        """Frames delivered per second, if nothing but decoding is slow."""
        return self.speed.throughput(self.cost)

    @property
    def is_feasible(self) -> bool:
        """Whether it can be run here."""
        return not self.why_not

    @property
    def is_sound(self) -> bool:
        """Whether it can be run, and gradients are right on average."""
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
    """Return the strategies there are for these videos, the plainest first.

    Bursts have 2, 3, 4, 6, 8, 12, ... 64 frames: the fewest that reach `target`; without one, as
    many as give the least noise per second, inflation ÷ throughput, tried upwards until it grows.

    Args:
        gop_lengths: int64 [GOPs] of all videos.
        budget: What batches are made in.
        speed: What decoding costs.
        noise: How correlated frames are; None means `Noise()`.
        target: Frames per second that the model takes; None means as many as there are.
        frames_per_burst: Size of the bursts; None chooses it.
        cost_of: Asked wherever there is a look-ahead. None means formulas: of milliseconds for a
            million GOPs, without what the limit on memory costs (`planner.plan_simulation` has it).

    Raises:
        ConfigError: a batch is larger than the set, or `target` or `frames_per_burst` below 1.
    """
    if target is not None and not target >= 1:
        raise ConfigError(f"target must be >= 1, got {target}")
    check_integers(1, frames_per_burst=frames_per_burst)
    table = _Table(gop_lengths, budget, speed, noise or Noise(), cost_of)
    check_batch(budget.batch_size, table.frames)
    sizes = _BURSTS if frames_per_burst is None else (frames_per_burst,)
    rows = [*table.exact(), _best_bursts(map(table.bursts, sizes), target)]
    return (*rows, table.keyframes()) if len(gop_lengths) < table.frames else tuple(rows)


def check_batch(batch_size: int, frames: int) -> None:
    """Do nothing if a batch can be drawn from so many frames.

    Raises:
        ConfigError: a batch is larger than the set.
    """
    if batch_size > frames:
        raise ConfigError(
            f"a batch of {batch_size} is larger than the set: the videos have {frames} frames in "
            f"all; at most {frames} are possible"
        )


class _Table:
    """Makes the rows for one set of videos."""

    def __init__(
        self,
        gop_lengths: NDArray[np.int64],
        budget: Budget,
        speed: Speed,
        noise: Noise,
        cost_of: CostOf | None,
    ) -> None:
        self.frames = int(gop_lengths.sum())
        self._lengths = gop_lengths
        self._budget = budget
        self._speed = speed
        self._noise = noise
        self._cost_of = cost_of

    def exact(self) -> list[Strategy]:
        """Return the rows whose frames are independent, or would be if they did not come once."""
        ahead = self._budget.lookahead
        once = self._budget.lookahead_once
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
        """Return the row of bursts of `size` frames, one lane for each frame of a batch."""
        lanes = self._budget.batch_size
        whole = (size - 1) * lanes + 1
        lookahead = max(self._budget.lookahead_once, whole)
        inflation = 1 + (size - 1) * self._noise.rho
        (next_batch, *_) = autocorrelation(self._noise.rho, mate_lags(size, lanes, lanes), 1)
        return self._row(
            f"bursts of {size}",
            Bursts(frames_per_burst=size, lanes=lanes),
            lookahead,
            f"each frame once an epoch, {size} from one decoding, dealt {lanes} slots apart; over "
            f"many steps a batch of {lanes} is worth {lanes / inflation:.0f}, and its gradient "
            f"correlates with the next one's by {next_batch:.2f}",
            self._why_no_bursts(size, lanes * (size - 1) // 2),
        )

    def keyframes(self) -> Strategy:
        """Return the row that is there to be warned of."""
        gops = len(self._lengths)
        rest = self.frames - gops
        bound = bias_bound(np.array([1.0, 0.0]), np.array([gops, rest]))
        return self._of(
            "keyframes only",
            None,
            1,
            Assessment(
                bias_bound=bound,
                design_effect=1.0,
                inflation=1.0,
                inflation_at=1.0,
                autocorrelation=(0.0,) * LAGS,
                cost=DecodeCost(amplification=1, seeks=1, held_frames=0),
                held_bytes=0,
            ),
            f"do not train on it: {100 * rest / self.frames:.1f} % of frames are never shown, and "
            f"no weights make up for that; gradients may be off by up to {bound:.1f} σ",
        )

    def _row(
        self, name: str, sampler: Sampler, lookahead: int, words: str, why_not: str = ""
    ) -> Strategy:
        found = assess(
            sampler,
            self._lengths,
            batch_size=self._budget.batch_size,
            lookahead=lookahead,
            frame_bytes=self._budget.frame_bytes,
            rho=self._noise.rho,
            contraction=self._noise.contraction,
        )
        if self._cost_of is not None and lookahead > 1 and not why_not:
            found = replace(found, cost=self._cost_of(sampler, lookahead))
        return self._of(name, sampler, lookahead, found, words, why_not)

    def _of(
        self,
        name: str,
        sampler: Sampler | None,
        lookahead: int,
        found: Assessment,
        words: str,
        why_not: str = "",
    ) -> Strategy:
        return Strategy(
            name=name,
            sampler=sampler,
            lookahead=lookahead,
            cost=found.cost,
            budget=self._budget,
            speed=self._speed,
            bias_bound=found.bias_bound,
            design_effect=found.design_effect,
            inflation=found.inflation,
            autocorrelation=found.autocorrelation,
            inflation_at=found.inflation_at,
            words=words,
            why_not=why_not,
        )

    def _why_no_bursts(self, size: int, waiting: float) -> str:
        budget = self._budget
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


def _best_bursts(rows: Iterable[Strategy], target: float | None) -> Strategy:
    """Return the best of rows that come with bursts of ever more frames."""
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
            best = max(best, row, key=lambda each: each.frames_per_second)
            if row.frames_per_second >= target:
                break
    assert best is not None
    return best


def compare_clips(
    clips: RandomClips, budget: Budget, speed: Speed, cost_of: CostOf
) -> tuple[Strategy, ...]:
    """Return the ways to draw these clips, the plainest first.

    Clips are drawn for themselves, so that a batch of them is worth as many; what a strategy is
    off by, beside others, is not asked: each draws what its words say, without bias.

    Args:
        clips: Which clips; each video once an epoch.
        budget: What batches are made in; its batch is of all frames of a batch of clips.
        speed: What decoding costs.
        cost_of: Tells what a sampler costs under a look-ahead.

    Raises:
        ConfigError: a video is too short for a clip, and is not to be left out.
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
            name=name,
            sampler=sampler,
            lookahead=lookahead,
            cost=cost_of(sampler, lookahead),
            budget=budget,
            speed=speed,
            bias_bound=0.0,
            design_effect=1.0,
            inflation=1.0,
            autocorrelation=(0.0,) * LAGS,
            inflation_at=1.0,
            words=words,
        )
        for name, sampler, lookahead, words in rows
    )
