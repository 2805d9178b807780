"""Frame samplers: in order, with replacement, without replacement, and weighted."""

import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.cached_property import cached_property
from headrace.errors import ConfigError
from headrace.sampling.counter_rng import CounterRng, Feistel, RngStream
from headrace.sampling.epoch_order import EpochOrder
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerContext, SamplerTraits, identity_of
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


@answers_names
@dataclass(frozen=True, kw_only=True)
class UniformFrames:
    """Frames drawn independently, with replacement: the baseline for all other samplers.

    An epoch has as many draws as frames; over frames, about 1 - 1/e of the frames occur in it. Over
    seconds, videos or weights, a frame occurs in proportion to its share, and a loss defined over
    frames is biased (`bias.bias` returns the bias).
    """

    over: Over = "frames"
    """Unit that is drawn uniformly: `frames` (i.i.d. sampling), `seconds` of display time, or
    `videos`; or weights of videos, in which frames are equally likely."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "over", checked_over(self.over))

    @property
    def traits(self) -> SamplerTraits:
        """Traits: independent draws; a frame may repeat immediately."""
        return SamplerTraits(
            identity=identity_of(self),
            is_random=True,
            has_replacement=True,
            seed=self.seed,
            needs_durations=self.over == "seconds",
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return the sampler with the requested seed and the weights of the opened videos."""
        return replace(self, over=over_opened(self.over, context), seed=context.seed_for(self.seed))

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
class ShuffledFrames:
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

    over: Over = "frames"
    """As for `UniformFrames`; `frames` is an ordinary shuffle."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "over", checked_over(self.over))

    @property
    def traits(self) -> SamplerTraits:
        """Traits: a shuffle; a frame does not repeat soon."""
        return SamplerTraits(
            identity=identity_of(self),
            is_random=True,
            has_replacement=False,
            seed=self.seed,
            needs_durations=self.over == "seconds",
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return the sampler with the requested seed and the weights of the opened videos."""
        return replace(self, over=over_opened(self.over, context), seed=context.seed_for(self.seed))

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
