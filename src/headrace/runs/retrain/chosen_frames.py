"""ChosenFrames: a sampler of those frames that have a class, each once an epoch."""

import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.feistel import Feistel
from headrace.sampling.order import Order
from headrace.sampling.population import Population
from headrace.sampling.random import Draws, Purpose
from headrace.sampling.sampler import SamplerTraits, SamplerUse


@dataclass(frozen=True, kw_only=True, eq=False)
class ChosenFrames:
    """Some frames of each video: shuffled anew each epoch, or video after video."""

    indices: tuple[NDArray[np.int64], ...]
    """Of the frames of each video that was given, ascending."""
    is_shuffled: bool = True
    seed: int = 0
    opened: NDArray[np.int64] | None = None
    """int64 [videos]: places of the videos that could be opened; None: all."""

    @property
    def traits(self) -> SamplerTraits:
        """Each frame at most once an epoch."""
        return SamplerTraits(
            identity=f"ChosenFrames({self._checksum}, is_shuffled={self.is_shuffled})",
            is_random=self.is_shuffled,
            has_replacement=False,
            seed=self.seed,
        )

    def adapt(self, use: SamplerUse) -> Self:
        """Return this with the seed asked for, of the videos that were opened."""
        return replace(self, seed=use.seed_for(self.seed), opened=use.videos)

    def order(self, population: Population, epoch: int) -> Order:
        """Return the order of one epoch."""
        opened = range(len(self.indices)) if self.opened is None else self.opened.tolist()
        starts = population.video_start
        ids = np.concatenate(
            [starts[place] + self.indices[video] for place, video in enumerate(opened)]
        )
        if not self.is_shuffled or not len(ids):
            return Order(length=len(ids), frames_at=lambda slots: ids[slots])
        draws = Draws(seed=self.seed, epoch=epoch, purpose=Purpose.SHUFFLE)
        shuffle = Feistel(size=len(ids), draws=draws)
        return Order(length=len(ids), frames_at=lambda slots: ids[shuffle.at(slots)])

    @cached_property
    def _checksum(self) -> int:
        found = 0
        for each in self.indices:
            found = zlib.crc32(np.ascontiguousarray(each).data, zlib.crc32(b"video", found))
        return found
