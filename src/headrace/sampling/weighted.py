"""Weighted: each frame as often as its weight says, and weights that balance classes."""

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.feistel import Feistel
from headrace.sampling.line import stretch_of
from headrace.sampling.order import Order
from headrace.sampling.population import Population
from headrace.sampling.random import Draws, Purpose
from headrace.sampling.sampler import SamplerTraits, SamplerUse


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighted:
    """Single frames, each as often in an epoch as its share says, rounded up or down.

    As `Permutation` over weights, but with a weight for each frame: all lie on a line, each as long
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

    def adapt(self, use: SamplerUse) -> Self:
        """Return this with the seed asked for."""
        return replace(self, seed=use.seed_for(self.seed))

    def order(self, population: Population, epoch: int) -> Order:
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
        shuffle = Feistel(size=length, draws=self._draws(epoch, Purpose.SHUFFLE))
        place = self._draws(epoch, Purpose.ROTATION).fractions(0)
        return Order(
            length=length,
            frames_at=lambda slots: stretch_of(
                until, (shuffle.at(slots) + place) / length * until[-1]
            ),
        )

    @cached_property
    def _checksum(self) -> int:
        return zlib.crc32(self.weights.tobytes())

    def _draws(self, epoch: int, purpose: Purpose) -> Draws:
        return Draws(seed=self.seed, epoch=epoch, purpose=purpose)


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
