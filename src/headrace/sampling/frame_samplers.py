"""Samplers of single frames: in order, with replacement, and each once."""

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.errors import ConfigError
from headrace.sampling.counter_rng import CounterRng, Feistel, RngStream
from headrace.sampling.epoch_order import EpochOrder
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerContext, SamplerTraits
from headrace.sampling.sampling_weights import Over, checked_over, line_of, over_opened, stretch_of
from headrace.units import check_integers


@answers_names
@dataclass(frozen=True, kw_only=True)
class SequentialFrames:
    """Every `stride`-th frame of each video, video after video; each epoch alike."""

    stride: int = 1
    """1 means every frame."""

    def __post_init__(self) -> None:
        check_integers(1, stride=self.stride)

    @property
    def traits(self) -> SamplerTraits:
        """Each frame once at most, in an order without chance."""
        return SamplerTraits(identity=repr(self), is_random=False, has_replacement=False)

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
    """Frames drawn independently, with replacement: the reference that others are measured by.

    An epoch has as many draws as there are frames; over frames, about 1 - 1/e of them are seen in
    it. Over anything else, a frame comes in proportion to its share, and a loss that is meant over
    frames is biased (`bias.bias` says by how much).
    """

    over: Over = "frames"
    """`frames` is the i.i.d. sampling of the literature."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "over", checked_over(self.over))

    @property
    def traits(self) -> SamplerTraits:
        """Independent draws: a frame may come twice in a row."""
        return SamplerTraits(
            identity=repr(self),
            is_random=True,
            has_replacement=True,
            seed=self.seed,
            needs_durations=self.over == "seconds",
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return this with the seed asked for, and the weights of the videos that were opened."""
        return replace(self, over=over_opened(self.over, context), seed=context.seed_for(self.seed))

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: as many slots as frames.

        Raises:
            ConfigError: over seconds, and the population has no durations; or there are not as
                many weights as videos.
        """
        draws = CounterRng(seed=self.seed, epoch=epoch, purpose=RngStream.FRAME)
        frames = population.num_frames
        if self.over == "frames":
            return EpochOrder(length=frames, frames_at=lambda slots: draws.integers(slots, frames))
        line = line_of(population, self.over)
        return EpochOrder(length=frames, frames_at=lambda slots: line(draws.fractions(slots)))


@answers_names
@dataclass(frozen=True, kw_only=True)
class ShuffledFrames:
    """As `UniformFrames`, but without replacement: over frames, each comes exactly once an epoch.

    Random reshuffling: every slot has the same law as under `UniformFrames`, so expected
    gradients are equal; but the remaining frames depend on those already drawn
    (`bias.epoch_inflation` says how much).

    Over anything else, each frame and each video comes as often in an epoch as its share says,
    rounded up or down. All frames lie on a line, each as long as its share; the line is cut into as
    many equal cells as there are frames; cells are visited in random order, and each gives what
    lies at one place in it. The place is uniform, the same for all cells, and another one each
    epoch; so frames that come less than once an epoch are evenly spaced in it.
    Source: systematic sampling; Madow, Ann. Math. Stat. 20, 1949.
    """

    over: Over = "frames"
    """`frames` is the shuffled epoch of the literature."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "over", checked_over(self.over))

    @property
    def traits(self) -> SamplerTraits:
        """A shuffle: what came does not soon come again."""
        return SamplerTraits(
            identity=repr(self),
            is_random=True,
            has_replacement=False,
            seed=self.seed,
            needs_durations=self.over == "seconds",
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return this with the seed asked for, and the weights of the videos that were opened."""
        return replace(self, over=over_opened(self.over, context), seed=context.seed_for(self.seed))

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: a slot per frame. Raises as `UniformFrames` does."""
        frames = population.num_frames
        shuffle = Feistel(size=frames, draws=self._draws(epoch, RngStream.SHUFFLE))
        if self.over == "frames":
            return EpochOrder(length=frames, frames_at=shuffle.at)
        line = line_of(population, self.over)
        place = self._draws(epoch, RngStream.ROTATION).fractions(0)
        return EpochOrder(
            length=frames, frames_at=lambda slots: line((shuffle.at(slots) + place) / frames)
        )

    def _draws(self, epoch: int, purpose: RngStream) -> CounterRng:
        return CounterRng(seed=self.seed, epoch=epoch, purpose=purpose)


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighted:
    """Single frames, each as often in an epoch as its share says, rounded up or down.

    `ShuffledFrames` over weights, with a weight for each frame: all lie on a line, each as long
    as its weight, and equal cells of it are visited in random order, at one place in all of them
    that is another one each epoch.
    Source: systematic sampling; Madow, Ann. Math. Stat. 20, 1949.
    """

    weights: NDArray[np.float64]
    """float64 [frames]: at least 0, not all 0."""
    length: int
    """Slots in an epoch."""
    seed: int = 0

    @property
    def traits(self) -> SamplerTraits:
        """A frame of a great weight may soon come again."""
        return SamplerTraits(
            identity=f"Weighted({self._checksum}, length={self.length}, seed={self.seed})",
            is_random=True,
            has_replacement=True,
            seed=self.seed,
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return this with the seed asked for."""
        return replace(self, seed=context.seed_for(self.seed))

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch.

        Raises:
            ConfigError: there are not as many weights as frames.
        """
        if len(self.weights) != population.num_frames:
            raise ConfigError(
                f"one weight is needed for each of {population.num_frames} frames, got "
                f"{len(self.weights)}"
            )
        until, length = np.cumsum(self.weights), self.length
        shuffle = Feistel(size=length, draws=self._draws(epoch, RngStream.SHUFFLE))
        place = self._draws(epoch, RngStream.ROTATION).fractions(0)
        return EpochOrder(
            length=length,
            frames_at=lambda slots: stretch_of(
                until, (shuffle.at(slots) + place) / length * until[-1]
            ),
        )

    @cached_property
    def _checksum(self) -> int:
        return zlib.crc32(self.weights.tobytes())

    def _draws(self, epoch: int, purpose: RngStream) -> CounterRng:
        return CounterRng(seed=self.seed, epoch=epoch, purpose=purpose)


def balanced(labels: Sequence[Collection[str]]) -> tuple[NDArray[np.float64], int]:
    """Return weights, float64 [frames], by which each class comes equally often, and a length.

    A class is sampled for each with the same share; of it, each frame that has it alike. A frame
    of several classes may come for each of them; one of none never comes. An epoch has as many
    slots as there are pairs of a frame and a class of it.
    Source: class-balanced grouping and sampling (CBGS); Zhu et al., arXiv:1908.09492, 2019, which
    draws that many with replacement.

    Raises:
        ConfigError: no frame has a class.
    """
    each = [sorted(set(classes)) for classes in labels]
    counts: dict[str, int] = {}
    for classes in each:
        for name in classes:
            counts[name] = counts.get(name, 0) + 1
    if not counts:
        raise ConfigError("classes are to be balanced, and no key moment has a label")
    weights = np.array([sum(1 / counts[name] for name in classes) for classes in each], np.float64)
    return weights, sum(counts.values())
