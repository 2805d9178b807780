"""Samplers of single frames: in order, with replacement, and each once."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.feistel import Feistel
from headrace.sampling.order import Order
from headrace.sampling.population import Population
from headrace.sampling.random import Draws, Purpose

Over = Literal["frames", "seconds", "videos"]
"""What a draw is uniform over."""


@dataclass(frozen=True, kw_only=True)
class InOrder:
    """Every `stride`-th frame of each video, video after video; each epoch alike."""

    stride: int = 1
    """1 means every frame."""

    def __post_init__(self) -> None:
        if self.stride < 1:
            raise ConfigError(f"stride must be >= 1, got {self.stride}")

    def order(self, population: Population, epoch: int) -> Order:
        """Return the order, which is the same for every epoch."""
        counts = -(-population.frames_per_video // self.stride)
        first_slot = np.cumsum(counts) - counts

        def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            video = np.searchsorted(first_slot, slots, "right") - 1
            return population.frame_ids(video, (slots - first_slot[video]) * self.stride)

        return Order(length=int(counts.sum()), frames_at=frames_at)


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """Frames drawn independently, with replacement: the reference that others are measured by.

    `over="frames"`: every frame of every video alike, the i.i.d. sampling of the literature.
    `over="seconds"`: every moment alike, so a frame in proportion to how long it is shown; needs a
    population with durations. `over="videos"`: a video, then a frame of it, so frames of short
    videos come more often: `num_frames / (num_videos * frames of the video)` times as often.
    An epoch has as many draws as there are frames; about 1 - 1/e of them are seen in it.
    """

    over: Over = "frames"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.over not in get_args(Over):
            raise ConfigError(f"over must be one of {', '.join(get_args(Over))}, got {self.over!r}")

    def order(self, population: Population, epoch: int) -> Order:
        """Return the order of one epoch: as many slots as frames.

        Raises:
            ConfigError: over seconds, and the population has no durations.
        """
        draws = Draws(seed=self.seed, epoch=epoch, purpose=Purpose.FRAME)
        if self.over == "seconds":
            return _over_seconds(population, draws)
        if self.over == "videos":
            return Weighted(weights=(1.0,) * population.num_videos, seed=self.seed).order(
                population, epoch
            )

        def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            return draws.integers(slots, population.num_frames)

        return Order(length=population.num_frames, frames_at=frames_at)


@dataclass(frozen=True, kw_only=True)
class Weighted:
    """A video in proportion to its weight, then a uniform frame of it, with replacement.

    A frame of video v comes `num_frames * (weight of v / all weights) / (frames of v)` times as
    often as under `Uniform()`. Weights in proportion to the frames are the same as `Uniform()`.
    """

    weights: tuple[float, ...]
    """One for each video, at least 0, not all 0."""
    seed: int = 0

    def __post_init__(self) -> None:
        given = (*self.weights, 0.0)
        if not (np.isfinite(given).all() and min(given) >= 0 < max(given)):
            raise ConfigError(
                f"weights must be finite, at least 0 and not all 0, got {self.weights[:8]}"
            )

    def order(self, population: Population, epoch: int) -> Order:
        """Return the order of one epoch: as many slots as frames.

        Raises:
            ConfigError: there are not as many weights as videos.
        """
        if len(self.weights) != population.num_videos:
            raise ConfigError(
                f"one weight is needed for each of {population.num_videos} videos, "
                f"got {len(self.weights)}"
            )
        until = np.cumsum(self.weights)
        video_draws = Draws(seed=self.seed, epoch=epoch, purpose=Purpose.VIDEO)
        frame_draws = Draws(seed=self.seed, epoch=epoch, purpose=Purpose.FRAME)

        def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            video = _place(until, video_draws.fractions(slots))
            index = frame_draws.integers(slots, population.frames_per_video[video])
            return population.frame_ids(video, index)

        return Order(length=population.num_frames, frames_at=frames_at)


@dataclass(frozen=True, kw_only=True)
class Permutation:
    """Each frame exactly once an epoch, in random order; each epoch in another one.

    Random reshuffling: every slot holds a uniform frame, so expected gradients are those of i.i.d.
    frames; but what is left depends on what came before (`bias.epoch_inflation` says how much).
    """

    seed: int = 0

    def order(self, population: Population, epoch: int) -> Order:
        """Return the order of one epoch: as many slots as frames."""
        draws = Draws(seed=self.seed, epoch=epoch, purpose=Purpose.SHUFFLE)
        shuffle = Feistel(size=population.num_frames, draws=draws)
        return Order(length=len(shuffle), frames_at=shuffle.at)


def _over_seconds(population: Population, draws: Draws) -> Order:
    until = population.shown_until
    if until is None:
        raise ConfigError(
            "sampling over seconds needs to know how long each frame is shown; give "
            "durations_seconds to Population.of"
        )

    def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
        return _place(until, draws.fractions(slots))

    return Order(length=population.num_frames, frames_at=frames_at)


def _place(until: NDArray[np.float64], fractions: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return which stretch of a line each fraction of the line falls into; `until` are the ends.

    A stretch without length is never hit: a fraction may round up to the end of the line, and
    falls back into the last stretch that has a length.
    """
    last = np.searchsorted(until, until[-1], "left")
    stretch = np.searchsorted(until, fractions * until[-1], "right")
    return np.asarray(np.minimum(stretch, last), np.int64)
