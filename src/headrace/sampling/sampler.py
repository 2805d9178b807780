"""Sampler: what is needed to know of a way of sampling, whoever wrote it."""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.epoch_order import EpochOrder
from headrace.sampling.population import Population
from headrace.units import check_integers

SampleKind = Literal["single frames", "clips"]
"""What a sampler gives: samples of one frame each, or of `SamplerTraits.num_frames`."""

_ADDRESS = " at 0x"
"""In what `repr` says of an object that has none of its own."""


@dataclass(frozen=True, kw_only=True)
class SamplerTraits:
    """What a sampler says of itself; the same for every epoch and every set of videos."""

    identity: str
    """Samplers of one identity give the same orders of the same videos: a state is resumed only
    where it is the same. Of a dataclass, `repr(self)`."""
    is_random: bool
    """Whether another epoch, or another seed, has another order."""
    has_replacement: bool
    """Whether a frame may come again soon after it came. Then fewer frames fill the memory that
    the engine may use, and it looks further ahead."""
    num_frames: int | None = None
    """Frames of a clip, where samples are clips; None: samples are single frames."""
    seed: int | None = None
    """What its random draws begin from; None: it has no seed."""
    needs_durations: bool = False
    """Whether it asks for `Population.shown_until`, which takes 8 bytes a frame."""
    frames_needed: int = 1
    """Frames that each video must have."""
    spans_videos: bool = False
    """Whether a clip may have frames of several videos, as a window of several cameras has."""

    def __post_init__(self) -> None:
        if not isinstance(self.identity, str) or not self.identity or _ADDRESS in self.identity:
            raise ConfigError(
                "the identity of a sampler is a text that is the same in the next run, got "
                f"{self.identity!r}; name all that its order depends on, such as 'every 10th'"
            )
        check_integers(1, num_frames=self.num_frames, frames_needed=self.frames_needed)
        check_integers(0, seed=self.seed)

    def seed_or(self, other: int) -> int:
        """Return the sampler's seed, or another where it has none."""
        return other if self.seed is None else self.seed


@dataclass(frozen=True, kw_only=True, eq=False)
class SamplerContext:
    """What a sampler is about to be used for."""

    videos: NDArray[np.int64]
    """int64 [videos]: places, in the list that was given, of those that could be opened."""
    videos_given: int
    """Videos in that list."""
    paths: tuple[str, ...] = ()
    """Those of `videos`, as they were given; none where that is not known."""
    seed: int | None = None
    """The one that was asked for; None: the sampler keeps its own."""
    batch_size: int | None = None
    """Samples in a batch of each rank; None: not known."""
    ranks: int = 1
    """Processes that share an epoch."""

    def seed_for(self, own: int) -> int:
        """Return the seed that was asked for, or the sampler's own."""
        return own if self.seed is None else self.seed


class Sampler(Protocol):
    """Which frames, in which order; never how they are decoded. A value that does not change.

    Any class with these two members is one:

        class EveryTenth:
            traits = SamplerTraits(identity="every 10th", is_random=False, has_replacement=False)

            def order(self, population: Population, epoch: int) -> EpochOrder:
                length = -(-population.num_frames // 10)
                return EpochOrder(length=length, frames_at=lambda n: n * 10)

    One that is to take a loader's `seed`, has something for each video, or limits batches is an
    `BindableSampler` too.
    """

    @property
    def traits(self) -> SamplerTraits:
        """What it says of itself."""

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: how many samples it has, and which.

        Args:
            population: The frames of the videos that could be opened.
            epoch: Counted from 0; another one has another order, if there is a choice.

        Raises:
            ConfigError: the sampler cannot sample from such a population.
        """


@runtime_checkable
class BindableSampler(Sampler, Protocol):
    """A sampler that depends on what it is used for."""

    def bind(self, context: SamplerContext) -> Sampler:
        """Return the sampler for this use: with its seed, and what belongs to its videos.

        Raises:
            ConfigError: it is of no such use.
        """


def bind_sampler(sampler: Sampler, context: SamplerContext) -> Sampler:
    """Return a sampler for a use, after a look at whether it is one.

    Raises:
        ConfigError: it lacks a member of `Sampler`; it is of no such use; or a seed is asked of one
            that has another, or takes none, and is random.
    """
    check_members(sampler)
    own = sampler.traits.seed
    if context.seed is not None and own and own != context.seed:
        raise ConfigError(
            f"seed={context.seed} conflicts with {_name(sampler)}(seed={own}); leave out one"
        )
    if isinstance(sampler, BindableSampler):
        sampler = sampler.bind(context)
        check_members(sampler)
    traits = sampler.traits
    if traits.is_random and context.seed not in (None, traits.seed):
        raise ConfigError(
            f"seed={context.seed} is given, and {_name(sampler)} takes none; give the sampler that "
            "seed, or a method `bind` that returns one with the seed (see BindableSampler)"
        )
    return sampler


def check_kind(sampler: Sampler, kind: SampleKind, *, taker: str, instead: str) -> None:
    """Check that a sampler gives what its taker needs.

    Args:
        sampler: What was given.
        kind: What it must give.
        taker: What to call the taker in the message.
        instead: What to do, in the message.

    Raises:
        ConfigError: it gives the other kind, or lacks a member of `Sampler`.
    """
    check_members(sampler)
    given: SampleKind = "single frames" if sampler.traits.num_frames is None else "clips"
    if given != kind:
        raise ConfigError(
            f"{taker} needs a sampler of {kind}, and {_name(sampler)} gives {given}; {instead}"
        )


def check_order(order: EpochOrder, sampler: Sampler, population: Population) -> None:
    """Check that an order is one, by its length and its first sample.

    Raises:
        ConfigError: it is none, has no sample, or its samples are not what the sampler says.
    """
    name = _name(sampler)
    if not isinstance(order, EpochOrder):
        raise ConfigError(f"{name}.order must return an Order, got {type(order).__name__}")
    if not len(order):
        raise ConfigError(f"{name} has no sample in an epoch; it must have one or more")
    first = np.asarray(order[:1])
    num_frames = sampler.traits.num_frames
    shape, kind = ((1,), "frames") if num_frames is None else ((1, num_frames), "clips")
    if first.dtype != np.int64 or first.shape != shape:
        raise ConfigError(
            f"{name} says in its traits that it samples {kind}, so one slot is int64 {[*shape]}; "
            f"its order gives {first.dtype} {[*first.shape]}; see num_frames of SamplerTraits"
        )
    check_samples(first, sampler, population)


def check_samples(frames: NDArray[np.int64], sampler: Sampler, population: Population) -> None:
    """Check that samples, int64 [n] or [n, T], are frames there are, and each clip of one video.

    Microseconds for a batch.

    Raises:
        ConfigError: they are not; says which.
    """
    if not frames.size:
        return
    if frames.min() < 0 or frames.max() >= population.num_frames:
        raise ConfigError(
            f"{_name(sampler)} gives frame {frames.max() if frames.min() >= 0 else frames.min()}; "
            f"frame ids are at least 0 and below {population.num_frames}, through all videos"
        )
    if frames.ndim == 1 or sampler.traits.spans_videos:
        return
    video = population.video_of(frames[:, 0])
    first = population.video_start[video][:, None]
    end = first + population.frames_per_video[video][:, None]
    strays = ((frames < first) | (frames >= end)).any(axis=1)
    if strays.any():
        clip = frames[strays][0]
        raise ConfigError(
            f"{_name(sampler)} gives a clip from frame {clip[0]} to {clip[-1]}, with frames of "
            f"videos {np.unique(population.video_of(clip)).tolist()}; a clip is of one video: see "
            "Population.video_start"
        )


def check_members(sampler: object) -> None:
    """Check that an object is a sampler.

    Raises:
        ConfigError: it lacks a member of `Sampler`; says which.
    """
    name = _name(sampler)
    if isinstance(sampler, type):
        raise ConfigError(f"a sampler is needed, and {name} is a class; call it: {name}(...)")
    lacks = [each for each in ("traits", "order") if not hasattr(sampler, each)]
    if lacks:
        raise ConfigError(
            f"{name} is no sampler: it has no {' and no '.join(f'`{each}`' for each in lacks)}; "
            "give one such as UniformFrames(), or add what is missing (see headrace.Sampler)"
        )
    traits = sampler.traits  # type: ignore[attr-defined]
    if not isinstance(traits, SamplerTraits):
        raise ConfigError(
            f"`traits` of {name} must be SamplerTraits, got {type(traits).__name__}; a property or "
            "an attribute, not a method"
        )
    if not callable(sampler.order):  # type: ignore[attr-defined]
        raise ConfigError(f"`order` of {name} must be a method (population, epoch) -> Order")


def _name(sampler: object) -> str:
    return sampler.__name__ if isinstance(sampler, type) else type(sampler).__name__
