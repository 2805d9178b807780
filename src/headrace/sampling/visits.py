"""Visits: which video each slot of an epoch is of, each once or in proportion to weights."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.feistel import Feistel
from headrace.sampling.line import check_over, stretch_of
from headrace.sampling.random import Draws, Purpose
from headrace.sampling.sampler import SamplerUse
from headrace.video.timebase import exact_number

Weights = tuple[float, ...] | None
"""How often each video comes, beside the others; None: each once an epoch."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Visits:
    """Which video each slot of an epoch is of: `visits.at(slots)`."""

    length: int
    """Slots in the epoch: as many as there are videos to choose from."""
    at: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    """Slots in [0, length) → numbers of videos, int64 of the same shape."""

    @classmethod
    def shuffled(
        cls, videos: NDArray[np.int64], weights: Weights, *, seed: int, epoch: int
    ) -> "Visits":
        """Return an epoch in random order.

        With weights, each video comes as often as its share of the epoch says, rounded up or down:
        all lie on a line, each as long as its weight, and equal cells of it are visited in random
        order, at one place in all of them that is another one each epoch.

        Args:
            videos: int64: numbers of those that there are to choose from.
            weights: Of every video, those that are not chosen from as well.
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
        until = np.cumsum(np.array(weights, np.float64)[videos])
        if not until[-1] > 0:
            raise ConfigError("none of the videos that a clip fits into has a weight above 0")
        place = Draws(seed=seed, epoch=epoch, purpose=Purpose.ROTATION).fractions(0)

        def at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            on_line = (shuffle.at(slots) + place) / len(videos) * until[-1]
            chosen: NDArray[np.int64] = videos[stretch_of(until, on_line)]
            return chosen

        return cls(length=len(videos), at=at)


def weights_of(weights: object) -> Weights:
    """Return weights as they are kept: a tuple of floats.

    Raises:
        ConfigError: they are no list of finite numbers from 0 up, or are all 0.
    """
    if weights is None:
        return None
    if not isinstance(weights, tuple | list | np.ndarray):
        raise ConfigError(
            f"weights must be a list of numbers, one for each video, got {type(weights).__name__}"
        )
    found = tuple(float(exact_number("each of weights", each)) for each in weights)
    check_over(found)
    return found


def weights_opened(weights: Weights, use: SamplerUse) -> Weights:
    """Return the weights of those videos only that could be opened.

    Raises:
        ConfigError: there are not as many as videos.
    """
    if weights is None:
        return None
    if len(weights) not in (use.videos_given, len(use.videos)):
        raise ConfigError(
            f"one weight is needed for each of {use.videos_given} videos or rows, got "
            f"{len(weights)}"
        )
    if len(weights) == use.videos_given:
        return tuple(weights[each] for each in use.videos.tolist())
    return weights
