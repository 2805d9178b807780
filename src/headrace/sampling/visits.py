"""Visits: which video each slot of an epoch is of, each once or in proportion to weights."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.feistel import Feistel
from headrace.sampling.line import stretch_of
from headrace.sampling.random import Draws, Purpose


@dataclass(frozen=True, kw_only=True, eq=False)
class Visits:
    """Which video each slot of an epoch is of: `visits.at(slots)`."""

    length: int
    """Slots in the epoch: as many as there are videos to choose from."""
    at: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    """Slots in [0, length) → numbers of videos, int64 of the same shape."""

    @classmethod
    def shuffled(
        cls,
        videos: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        *,
        seed: int,
        epoch: int,
    ) -> "Visits":
        """Return an epoch in random order.

        With weights, each video comes as often as its share of the epoch says, rounded up or down,
        over epochs and seeds exactly so on average: all lie on a line, each as long as its weight,
        and equal cells of it are visited in random order, at one place in all of them that is
        another one each epoch.

        Args:
            videos: int64: numbers of those that there are to choose from.
            weights: Of every video, those that are not chosen from as well. None: each once.
            seed: Another one gives another order.
            epoch: So does another epoch.

        Raises:
            ConfigError: none of `videos` has a weight.
        """
        shuffle = Feistel(
            size=len(videos), draws=Draws(seed=seed, epoch=epoch, purpose=Purpose.SHUFFLE)
        )
        if weights is None:
            return cls(length=len(videos), at=lambda slots: videos[shuffle.at(slots)])
        until = np.cumsum(weights[videos])
        if not until[-1] > 0:
            raise ConfigError("none of the videos that a clip fits into has a weight above 0")
        place = Draws(seed=seed, epoch=epoch, purpose=Purpose.ROTATION).fractions(0)

        def at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            on_line = (shuffle.at(slots) + place) / len(videos) * until[-1]
            chosen: NDArray[np.int64] = videos[stretch_of(until, on_line)]
            return chosen

        return cls(length=len(videos), at=at)
