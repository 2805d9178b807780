"""Frame samplers: in order, with replacement, without replacement, weighted, and in bursts."""

import zlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.cached_property import cached_property
from headrace.errors import ConfigError
from headrace.sampling.counter_rng import CounterRng, Feistel, RngStream
from headrace.sampling.population import Population
from headrace.sampling.sampler import EpochOrder, SamplerContext, SamplerTraits, identity_of
from headrace.sampling.sampling_weights import (
    Over,
    checked_over,
    interval_of,
    inverse_cdf,
    over_opened,
    shuffled_cells,
)
from headrace.units import check_integers


@answers_names
@dataclass(frozen=True, kw_only=True)
class SequentialFrames:
    """Every `stride`-th frame of each video, video after video, the same in every epoch."""

    stride: int = 1
    """1: every frame."""

    def __post_init__(self) -> None:
        check_integers(1, stride=self.stride)

    @property
    def traits(self) -> SamplerTraits:
        """Traits: each frame at most once, in a fixed order."""
        return SamplerTraits(identity=identity_of(self), is_random=False, has_replacement=False)

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order, which is the same for every epoch."""
        counts = -(-population.frames_per_video // self.stride)
        first_slot = np.cumsum(counts) - counts

        def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            video = np.searchsorted(first_slot, slots, "right") - 1
            return population.frame_ids(video, (slots - first_slot[video]) * self.stride)

        return EpochOrder(length=int(counts.sum()), frames_at=frames_at)


@dataclass(frozen=True, kw_only=True)
class _FramesOver:
    """Random frames, each in proportion to its share."""

    over: Over = "frames"
    """Unit that is drawn uniformly: `frames`, `seconds` of display time, or `videos`; or weights of
    videos, in which frames are equally likely."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "over", checked_over(self.over))

    def bind(self, context: SamplerContext) -> Self:
        """Return the sampler with the requested seed and the weights of the opened videos."""
        return replace(self, over=over_opened(self.over, context), seed=context.seed_for(self.seed))

    def _traits(self, *, has_replacement: bool) -> SamplerTraits:
        return SamplerTraits(
            identity=identity_of(self),
            is_random=True,
            has_replacement=has_replacement,
            seed=self.seed,
            needs_durations=self.over == "seconds",
        )


@answers_names
@dataclass(frozen=True, kw_only=True)
class UniformFrames(_FramesOver):
    """Frames drawn independently, with replacement: the baseline for all other samplers.

    An epoch has as many draws as frames; over frames, about 1 - 1/e of the frames occur in it. Over
    seconds, videos or weights, a frame occurs in proportion to its share, and a loss defined over
    frames is biased (`bias.bias` returns the bias).
    """

    @property
    def traits(self) -> SamplerTraits:
        """Traits: independent draws; a frame may repeat immediately."""
        return self._traits(has_replacement=True)

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: as many slots as frames.

        Raises:
            ConfigError: `over` is seconds and the population has no durations, or the number of
                weights is not the number of videos.
        """
        draws = CounterRng(self.seed, epoch, RngStream.FRAME)
        frames = population.num_frames
        if self.over == "frames":
            return EpochOrder(length=frames, frames_at=lambda slots: draws.integers(slots, frames))
        frame_at = inverse_cdf(population, self.over)
        return EpochOrder(length=frames, frames_at=lambda slots: frame_at(draws.fractions(slots)))


@answers_names
@dataclass(frozen=True, kw_only=True)
class ShuffledFrames(_FramesOver):
    """As `UniformFrames`, but without replacement: over frames, each occurs once per epoch.

    Random reshuffling: every slot has the same distribution as with `UniformFrames`, so expected
    gradients are equal. But the remaining frames depend on the frames already drawn
    (`bias.epoch_inflation` returns the effect).

    Over seconds, videos or weights, each frame and each video occurs in an epoch in proportion to
    its share, rounded up or down, by systematic sampling: frames are laid out on a line, each with
    its share as length. The line is cut into as many equal cells as there are frames, in random
    order. Each cell selects the frame at one position, which is uniform, the same in all cells, and
    new in each epoch. So frames that occur less than once per epoch are evenly spaced.
    Source: Madow, Ann. Math. Stat. 20, 1949.
    """

    @property
    def traits(self) -> SamplerTraits:
        """Traits: a shuffle; a frame does not repeat soon."""
        return self._traits(has_replacement=False)

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: one slot per frame. Raises as `UniformFrames.order`."""
        frames = population.num_frames
        if self.over == "frames":
            shuffle = Feistel(size=frames, draws=CounterRng(self.seed, epoch, RngStream.SHUFFLE))
            return EpochOrder(length=frames, frames_at=shuffle.at)
        frame_at = inverse_cdf(population, self.over)
        cells = shuffled_cells(frames, self.seed, epoch)
        return EpochOrder(length=frames, frames_at=lambda slots: frame_at(cells(slots)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighted:
    """Single frames, each in proportion to its weight, rounded up or down in each epoch.

    As `ShuffledFrames` over weights, but with weights of frames instead of videos.
    Source: systematic sampling; Madow, Ann. Math. Stat. 20, 1949.
    """

    weights: NDArray[np.float64]
    """float64 [frames]: >= 0, not all 0."""
    length: int
    """Number of slots in an epoch."""
    seed: int = 0

    @property
    def traits(self) -> SamplerTraits:
        """Traits: a frame with a large weight may repeat soon."""
        return SamplerTraits(
            identity=f"Weighted({self._checksum}, length={self.length}, seed={self.seed})",
            is_random=True,
            has_replacement=True,
            seed=self.seed,
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return the sampler with the requested seed."""
        return replace(self, seed=context.seed_for(self.seed))

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch.

        Raises:
            ConfigError: the number of weights is not the number of frames.
        """
        if len(self.weights) != population.num_frames:
            raise ConfigError(
                f"one weight is needed for each of {population.num_frames} frames, got "
                f"{len(self.weights)}"
            )
        ends, cells = np.cumsum(self.weights), shuffled_cells(self.length, self.seed, epoch)
        return EpochOrder(
            length=self.length,
            frames_at=lambda slots: interval_of(ends, cells(slots) * ends[-1]),
        )

    @cached_property
    def _checksum(self) -> int:
        return zlib.crc32(self.weights.tobytes())


def balanced(labels: Sequence[Collection[str]]) -> tuple[NDArray[np.float64], int]:
    """Return weights, float64 [frames], that balance classes, and the number of slots of an epoch.

    All classes have the same share, divided equally among the frames of the class. A frame with
    several classes has a share in each; a frame without a class never occurs. An epoch has one slot
    per pair of a frame and one of its classes.
    Source: class-balanced grouping and sampling (CBGS); Zhu et al., arXiv:1908.09492, 2019, which
    draws as many with replacement.

    Raises:
        ConfigError: no frame has a class.
    """
    frame_classes = [sorted(set(classes)) for classes in labels]
    counts = Counter(name for classes in frame_classes for name in classes)
    if not counts:
        raise ConfigError("classes cannot be balanced: no key moment has a label")
    shares = [sum(1 / counts[name] for name in classes) for classes in frame_classes]
    return np.array(shares, np.float64), counts.total()


@answers_names
@dataclass(frozen=True, kw_only=True)
class Bursts:
    """Each frame exactly once per epoch, in bursts; the frames of a burst are decoded together.

    The only sampler that trades statistics for speed. Its bias is 0: every slot has a uniform
    frame. But frames of one burst are correlated: `bias.mate_lags` returns their distance in
    batches, and other functions of `bias` the effect on gradients.

    1. Every GOP is cut into as many whole bursts as fit, of which the last ends with the GOP. The
       remaining frames at its start, and GOPs shorter than a burst, are concatenated in order and
       cut in the same way. So all bursts have the same size (except the very last). Most are inside
       a GOP; the others are next to keyframes, and cheapest to decode.
    2. Bursts in random order, end to end, form a circle of all frames; an epoch starts at a random
       position. So every slot is uniform, because its position on the circle is.
    3. The circle is cut into `lanes` equal parts, and slots are taken from the lanes in turn.
       Frames of a burst are a multiple of `lanes` slots apart, so a step of at most `lanes` frames,
       over all ranks, never has two of them; `check_step` checks this.
    4. Slots are delivered as planned, never in the order of decoding: otherwise frames that decode
       fast would come first.

    Each epoch has its own order and start. The bursts are the same in all epochs: random cuts would
    decode half a frame more per frame delivered, and would not reduce the bias. A slot is computed
    in O(log GOPs). A burst is decoded once if the planner looks ahead
    (frames_per_burst - 1) * lanes + 1 slots.
    Source: CorgiPile (Xu et al., SIGMOD 2022) shuffles blocks in the same way, in a pool.
    """

    frames_per_burst: int
    """Frames in a burst. 1 is the same as `ShuffledFrames`."""
    lanes: int
    """Number of bursts that are delivered in parallel: at least the batch size times the number of
    ranks. About lanes * (frames_per_burst - 1) / 2 decoded frames wait for their slot."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_integers(1, frames_per_burst=self.frames_per_burst, lanes=self.lanes)

    @property
    def traits(self) -> SamplerTraits:
        """Each frame once an epoch."""
        return SamplerTraits(
            identity=repr(self), is_random=True, has_replacement=False, seed=self.seed
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return the sampler with the requested seed.

        Raises:
            ConfigError: a step could hold two frames of a burst, or its size is unknown.
        """
        if self.frames_per_burst > 1:
            if context.batch_size is None:
                raise ConfigError(
                    f"{self} keeps frames of a burst out of one batch, and needs the batch size; "
                    "give batch_size, as for the DataLoader"
                )
            self.check_step(context.batch_size, context.ranks)
        return replace(self, seed=context.seed_for(self.seed))

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: as many slots as frames. Reads every GOP length once.

        Raises:
            ConfigError: there are fewer than lanes * (frames_per_burst + 1) frames, so a batch
                could have two frames of a burst.
        """
        frames = population.num_frames
        max_lanes = frames // (self.frames_per_burst + 1)
        if self.lanes > max_lanes:
            raise ConfigError(
                f"{self.lanes} lanes of bursts of {self.frames_per_burst} need at least "
                f"{self.lanes * (self.frames_per_burst + 1)} frames, the videos have {frames}; "
                f"at most {max_lanes} lanes are possible"
            )
        frame_at = _burst_frames(population, self.frames_per_burst)
        # The last, shorter burst is not shuffled, which is fine: on a circle no position is
        # special.
        draws = CounterRng(self.seed, epoch, RngStream.SHUFFLE)
        shuffle = Feistel(size=frames // self.frames_per_burst, draws=draws)
        rounds, longer = divmod(frames, self.lanes)
        start = int(CounterRng(self.seed, epoch, RngStream.ROTATION).integers(0, frames))

        def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            in_lane, lane = np.divmod(slots, self.lanes)
            # The first `longer` lanes have one frame more, so that the lanes have all frames.
            position = lane * rounds + np.minimum(lane, longer) + in_lane
            burst, step = np.divmod((start + position) % frames, self.frames_per_burst)
            is_full = burst < len(shuffle)
            burst[is_full] = shuffle.at(burst[is_full])
            return frame_at(burst * self.frames_per_burst + step)

        return EpochOrder(length=frames, frames_at=frames_at)

    def check_step(self, batch_size: int, ranks: int = 1) -> None:
        """Check that no step of `batch_size` on each of `ranks` has two frames of a burst.

        Does not consider slots that are repeated so that all ranks have equally many.

        Raises:
            ConfigError: a step has more frames than there are lanes.
        """
        step = batch_size * ranks
        if self.frames_per_burst == 1 or step <= self.lanes:
            return
        smaller = f", or a batch_size of at most {self.lanes // ranks}"
        raise ConfigError(
            f"a step of {batch_size} frames on each of {ranks} ranks can have two frames of one "
            f"burst with {self.lanes} lanes; choose {step} lanes or more"
            f"{smaller if self.lanes >= ranks else ''}"
        )


def _burst_frames(
    population: Population, frames_per_burst: int
) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """Return positions in [0, frames) → frame ids, with all bursts end to end, unshuffled.

    First come the bursts inside a GOP, then the bursts of the remainders. A frame id is the number
    of frames before the frame: frames of the same kind (inside or remainder), which is its position
    among them, plus frames of the other kind. A frame inside a GOP comes after the remainder of
    that GOP.
    """
    # int64 [GOPs + 1]: frames of each kind before each GOP; the last entry is their total.
    remainder = np.append(0, np.cumsum(population.gop_lengths % frames_per_burst))
    inside = population.gop_start - remainder

    def frames_at(positions: NDArray[np.int64]) -> NDArray[np.int64]:
        in_remainders = positions - inside[-1]
        next_gop = np.searchsorted(inside, positions, "right")
        gop = np.searchsorted(remainder, in_remainders, "right") - 1
        inside_id = positions + remainder.take(next_gop, mode="clip")
        frames = np.where(in_remainders < 0, inside_id, in_remainders + inside[gop])
        return np.asarray(frames, np.int64)

    return frames_at
