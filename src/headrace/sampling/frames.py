"""Samplers of single frames: in order, with replacement, and each once."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.sampling.feistel import Feistel
from headrace.sampling.line import Over, checked_over, line_of, over_opened
from headrace.sampling.order import Order
from headrace.sampling.population import Population
from headrace.sampling.random import Draws, Purpose
from headrace.sampling.sampler import SamplerTraits, SamplerUse
from headrace.sizes import check_integers


@answers_names
@dataclass(frozen=True, kw_only=True)
class InOrder:
    """Every `stride`-th frame of each video, video after video; each epoch alike."""

    stride: int = 1
    """1 means every frame."""

    def __post_init__(self) -> None:
        check_integers(1, stride=self.stride)

    @property
    def traits(self) -> SamplerTraits:
        """Each frame once at most, in an order without chance."""
        return SamplerTraits(identity=repr(self), is_random=False, has_replacement=False)

    def order(self, population: Population, epoch: int) -> Order:
        """Return the order, which is the same for every epoch."""
        counts = -(-population.frames_per_video // self.stride)
        first_slot = np.cumsum(counts) - counts

        def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            video = np.searchsorted(first_slot, slots, "right") - 1
            return population.frame_ids(video, (slots - first_slot[video]) * self.stride)

        return Order(length=int(counts.sum()), frames_at=frames_at)


@answers_names
@dataclass(frozen=True, kw_only=True)
class Uniform:
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

    def adapt(self, use: SamplerUse) -> Self:
        """Return this with the seed asked for, and the weights of the videos that were opened."""
        return replace(self, over=over_opened(self.over, use), seed=use.seed_for(self.seed))

    def order(self, population: Population, epoch: int) -> Order:
        """Return the order of one epoch: as many slots as frames.

        Raises:
            ConfigError: over seconds, and the population has no durations; or there are not as
                many weights as videos.
        """
        draws = Draws(seed=self.seed, epoch=epoch, purpose=Purpose.FRAME)
        frames = population.num_frames
        if self.over == "frames":
            return Order(length=frames, frames_at=lambda slots: draws.integers(slots, frames))
        line = line_of(population, self.over)
        return Order(length=frames, frames_at=lambda slots: line(draws.fractions(slots)))


@answers_names
@dataclass(frozen=True, kw_only=True)
class Permutation:
    """As `Uniform`, but without replacement: over frames, each comes exactly once an epoch.

    Random reshuffling: every slot has the same law as under `Uniform`, so expected gradients are
    equal; but what is left depends on what came before (`bias.epoch_inflation` says how much).

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

    def adapt(self, use: SamplerUse) -> Self:
        """Return this with the seed asked for, and the weights of the videos that were opened."""
        return replace(self, over=over_opened(self.over, use), seed=use.seed_for(self.seed))

    def order(self, population: Population, epoch: int) -> Order:
        """Return the order of one epoch: as many slots as frames. Raises as `Uniform` does."""
        frames = population.num_frames
        shuffle = Feistel(size=frames, draws=self._draws(epoch, Purpose.SHUFFLE))
        if self.over == "frames":
            return Order(length=frames, frames_at=shuffle.at)
        line = line_of(population, self.over)
        place = self._draws(epoch, Purpose.ROTATION).fractions(0)
        return Order(
            length=frames, frames_at=lambda slots: line((shuffle.at(slots) + place) / frames)
        )

    def _draws(self, epoch: int, purpose: Purpose) -> Draws:
        return Draws(seed=self.seed, epoch=epoch, purpose=purpose)
