"""Interface of samplers: protocol, traits, context, and checks of user-defined samplers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.population import Population
from headrace.units import check_integers, one_of

ClipsAt = Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.bool_]]]
"""Slots in [0, length) → frame ids, int64 [n, T], and pads, bool [n, T]."""


@dataclass(frozen=True, kw_only=True)
class EpochOrder:
    """Frames of each slot of one epoch: `order[start:stop]`, `order.at(slots)`.

    Slot n is the n-th frame (or clip) of the epoch, over all batches and ranks. Slots are computed
    independently, at any time and in any order. So seed, epoch and slot are a complete state for
    resuming, also with another number of workers or ranks.
    """

    length: int
    """Number of slots in the epoch."""
    frames_at: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    """Slots in [0, length) → frame ids, as `at`, without its check."""
    is_pad_at: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None
    """Slots → bool [n, num_frames]: pads, which replace frames that the video does not have; None:
    no pads."""
    rows_at: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None
    """Slots → int64 [n]: manifest row of each sample; None: samples are of whole videos."""
    too_short: tuple[int, ...] = ()
    """Skipped videos, which are too short for a clip and have no slot."""

    @classmethod
    def of_clips(
        cls,
        length: int,
        clips_at: ClipsAt,
        *,
        has_pads: bool,
        too_short: tuple[int, ...] = (),
    ) -> "EpochOrder":
        """Return the order of an epoch of clips.

        Args:
            length: Number of slots in the epoch.
            clips_at: Slots → frame ids and pads, both [n, T].
            has_pads: Whether there may be pads.
            too_short: Value of the field.
        """
        return cls(
            length=length,
            frames_at=lambda slots: clips_at(slots)[0],
            is_pad_at=(lambda slots: clips_at(slots)[1]) if has_pads else None,
            too_short=too_short,
        )

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, slots: slice) -> NDArray[np.int64]:
        """Return the frame ids of a slice of the slots, with the slicing rules of a list."""
        return self.frames_at(np.arange(*slots.indices(self.length), dtype=np.int64))

    def at(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame ids of `slots`: int64 [n], or [n, num_frames] for clips.

        Raises:
            ConfigError: a slot is outside [0, length).
        """
        if len(slots) and not (slots.min() >= 0 and slots.max() < self.length):
            raise ConfigError(
                f"slots must be at least 0 and below {self.length}, the length of the epoch; "
                f"got {slots.min()} to {slots.max()}"
            )
        return self.frames_at(slots)


Remainder = Literal["repeat", "drop"]
"""Rule for slots beyond a multiple of the number of ranks."""


@dataclass(frozen=True, kw_only=True)
class Shard:
    """Slots of one rank in every epoch: `order.at(shard.slots(start, stop, len(order)))`.

    Slots, not videos, are distributed over the ranks. So the samples of a step, over all ranks, do
    not depend on the number of ranks, and a rank is not limited to its own videos. All ranks have
    equally many slots.
    """

    rank: int = 0
    ranks: int = 1
    """Number of ranks."""
    remainder: Remainder = "repeat"
    """`repeat`: the first slots of the epoch, at most ranks - 1, are repeated at its end. `drop`:
    its last slots, at most ranks - 1, are dropped."""

    def __post_init__(self) -> None:
        check_integers(0, rank=self.rank, ranks=self.ranks)
        if not 0 <= self.rank < self.ranks:
            raise ConfigError(
                f"rank must be at least 0 and below the number of ranks, got rank {self.rank} "
                f"of {self.ranks}"
            )
        one_of(Remainder, remainder=self.remainder)

    def count(self, length: int, skip: int = 0) -> int:
        """Return the number of slots per rank in an epoch of `length`.

        `skip` slots of the epoch were delivered before, by any number of ranks.
        """
        remaining = length - skip
        return remaining // self.ranks if self.remainder == "drop" else -(-remaining // self.ranks)

    def slots(self, start: int, stop: int, length: int, skip: int = 0) -> NDArray[np.int64]:
        """Return slots number [start, stop) of this rank, int64 [stop - start] in [0, length).

        Raises:
            ConfigError: the range exceeds the slots of the rank.
        """
        count = self.count(length, skip)
        if not 0 <= start <= stop <= count:
            raise ConfigError(
                f"slots [{start}, {stop}) of rank {self.rank} are out of range: it has {count} in "
                f"an epoch of {length} with {skip} skipped"
            )
        return self._positions(start, stop, skip) % length

    def is_repeated(self, start: int, stop: int, length: int, skip: int = 0) -> NDArray[np.bool_]:
        """Return which of the slots number [start, stop) of this rank are repeated, bool."""
        return self._positions(start, stop, skip) >= length

    def _positions(self, start: int, stop: int, skip: int) -> NDArray[np.int64]:
        return skip + np.arange(start, stop, dtype=np.int64) * self.ranks + self.rank


SampleKind = Literal["single frames", "clips"]
"""Kind of samples: one frame each, or clips of `SamplerTraits.num_frames`."""

_ADDRESS = " at 0x"
"""Part of the default `repr` of an object, which changes between runs."""


_STATE_NAMES = {
    "SequentialFrames": "InOrder",
    "ShuffledFrames": "Permutation",
    "UniformFrames": "Uniform",
    "SegmentClips": "SpreadClips",
}
"""Class → its name in the identities of saved states."""


def identity_of(sampler: object) -> str:
    """Return the identity of a dataclass: its `repr`, with the class name used in saved states."""
    name = type(sampler).__name__
    return _STATE_NAMES.get(name, name) + repr(sampler).removeprefix(name)


@dataclass(frozen=True, kw_only=True)
class SamplerTraits:
    """Properties of a sampler, the same for every epoch and every set of videos."""

    identity: str
    """Text that determines the order: samplers with equal identities return equal orders for equal
    videos, and a state can be resumed only with an equal identity. `repr(self)` for a dataclass."""
    is_random: bool
    """Whether the order depends on the epoch or the seed."""
    has_replacement: bool
    """Whether a frame may repeat soon. A window of requests then has fewer distinct frames, so a
    loader looks further ahead in the same memory."""
    num_frames: int | None = None
    """Frames of a clip; None: samples are single frames."""
    seed: int | None = None
    """Seed of random draws; None: the sampler has no seed."""
    needs_durations: bool = False
    """Whether the sampler reads `Population.shown_until`, which takes 8 bytes per frame."""
    frames_needed: int = 1
    """Min frames of each video."""
    spans_videos: bool = False
    """Whether a clip may have frames of several videos, such as a window of several cameras."""

    def __post_init__(self) -> None:
        if not isinstance(self.identity, str) or not self.identity or _ADDRESS in self.identity:
            raise ConfigError(
                "identity must be a text that is the same in the next run, got "
                f"{self.identity!r}; name everything that the order depends on, such as "
                "'every 10th'"
            )
        check_integers(1, num_frames=self.num_frames, frames_needed=self.frames_needed)
        check_integers(0, seed=self.seed)

    def seed_or(self, other: int) -> int:
        """Return the sampler's seed, or `other` if it has none."""
        return other if self.seed is None else self.seed


@dataclass(frozen=True, kw_only=True, eq=False)
class SamplerContext:
    """Context in which a sampler is used: the loader's videos, seed, batch size and ranks."""

    videos: NDArray[np.int64]
    """int64 [videos]: positions of the opened videos in the given list."""
    videos_given: int
    """Number of videos in that list."""
    paths: tuple[str, ...] = ()
    """Paths of `videos`, as given; empty: unknown."""
    seed: int | None = None
    """Requested seed; None: the sampler keeps its own."""
    batch_size: int | None = None
    """Samples in a batch of each rank; None: unknown."""
    ranks: int = 1
    """Processes that share an epoch."""

    def seed_for(self, own: int) -> int:
        """Return the requested seed, or `own` if none is requested."""
        return own if self.seed is None else self.seed


class Sampler(Protocol):
    """Choice and order of frames, independent of decoding. An immutable value.

    Any class with these two members is a sampler:

        class EveryTenth:
            traits = SamplerTraits(identity="every 10th", is_random=False, has_replacement=False)

            def order(self, population: Population, epoch: int) -> EpochOrder:
                length = -(-population.num_frames // 10)
                return EpochOrder(length=length, frames_at=lambda n: n * 10)

    A sampler that accepts a loader's `seed`, has values for each video, or constrains batches is
    also a `BindableSampler`.
    """

    @property
    def traits(self) -> SamplerTraits:
        """Its properties."""

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: its length and its samples.

        Args:
            population: Frames of the opened videos.
            epoch: Epoch, from 0; if the sampler is random, each has its own order.

        Raises:
            ConfigError: the sampler cannot sample from this population.
        """


@runtime_checkable
class BindableSampler(Sampler, Protocol):
    """Sampler that depends on the context in which it is used."""

    def bind(self, context: SamplerContext) -> Sampler:
        """Return the sampler with the context's seed, and its values for the context's videos.

        Raises:
            ConfigError: the sampler cannot be used in this context.
        """


def bind_sampler(sampler: Sampler, context: SamplerContext) -> Sampler:
    """Check a sampler's members, and bind it to a context.

    Raises:
        ConfigError: the sampler lacks a member of `Sampler`, or cannot be used in this context; or
            a seed is requested, and the sampler has another one, or is random and accepts none.
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
            f"{_name(sampler)} does not accept seed={context.seed}; create it with that seed, or "
            "add a method `bind` that returns a sampler with the seed (see BindableSampler)"
        )
    return sampler


def check_kind(sampler: Sampler, kind: SampleKind, *, taker: str, instead: str) -> None:
    """Check the kind of a sampler's samples.

    Args:
        sampler: The sampler.
        kind: Required kind.
        taker: Name of the class that requires it, for the message.
        instead: Fix, for the message.

    Raises:
        ConfigError: the samples are of the other kind, or the sampler lacks a member of `Sampler`.
    """
    check_members(sampler)
    actual: SampleKind = "single frames" if sampler.traits.num_frames is None else "clips"
    if actual != kind:
        raise ConfigError(
            f"{taker} needs a sampler of {kind}, but {_name(sampler)} samples {actual}; {instead}"
        )


def check_order(order: EpochOrder, sampler: Sampler, population: Population) -> None:
    """Check the type, the length and the first sample of an order.

    Raises:
        ConfigError: it is not an `EpochOrder`, is empty, or its samples contradict the traits.
    """
    name = _name(sampler)
    if not isinstance(order, EpochOrder):
        raise ConfigError(f"{name}.order must return an EpochOrder, got {type(order).__name__}")
    if not len(order):
        raise ConfigError(f"{name} has an empty epoch; an order needs one sample or more")
    first = np.asarray(order[:1])
    num_frames = sampler.traits.num_frames
    shape, kind = ((1,), "frames") if num_frames is None else ((1, num_frames), "clips")
    if first.dtype != np.int64 or first.shape != shape:
        raise ConfigError(
            f"the order of {name} must return int64 {[*shape]} for one slot, because its traits "
            f"are for {kind}, got {first.dtype} {[*first.shape]}; see SamplerTraits.num_frames"
        )
    check_samples(first, sampler, population)


def check_samples(frames: NDArray[np.int64], sampler: Sampler, population: Population) -> None:
    """Check that samples, int64 [n] or [n, T], are valid frame ids, and that clips have one video.

    Takes microseconds for a batch.

    Raises:
        ConfigError: a sample is invalid; names it.
    """
    if not frames.size:
        return
    if frames.min() < 0 or frames.max() >= population.num_frames:
        raise ConfigError(
            f"{_name(sampler)} returned frame {frames.max() if frames.min() >= 0 else frames.min()}"
            f"; frame ids must be in [0, {population.num_frames}), over all videos"
        )
    if frames.ndim == 1 or sampler.traits.spans_videos:
        return
    video = population.video_of(frames[:, 0])
    first = population.video_start[video][:, None]
    end = first + population.frames_per_video[video][:, None]
    is_mixed = ((frames < first) | (frames >= end)).any(axis=1)
    if is_mixed.any():
        clip = frames[is_mixed][0]
        raise ConfigError(
            f"{_name(sampler)} returned a clip from frame {clip[0]} to {clip[-1]}, with frames of "
            f"videos {np.unique(population.video_of(clip)).tolist()}; a clip must have frames of "
            "one video: see Population.video_start"
        )


def check_members(sampler: object) -> None:
    """Check that an object is a sampler.

    Raises:
        ConfigError: the object lacks a member of `Sampler`; names it.
    """
    name = _name(sampler)
    if isinstance(sampler, type):
        raise ConfigError(f"{name} is a class, not a sampler; create an instance: {name}(...)")
    missing = [f"`{member}`" for member in ("traits", "order") if not hasattr(sampler, member)]
    if missing:
        raise ConfigError(
            f"{name} is not a sampler: it has no {' and no '.join(missing)}; "
            "use one such as UniformFrames(), or add the missing members (see headrace.Sampler)"
        )
    traits = sampler.traits  # type: ignore[attr-defined]
    if not isinstance(traits, SamplerTraits):
        raise ConfigError(
            f"`traits` of {name} must be SamplerTraits, got {type(traits).__name__}; make it a "
            "property or an attribute, not a method"
        )
    if not callable(sampler.order):  # type: ignore[attr-defined]
        raise ConfigError(f"`order` of {name} must be a method (population, epoch) -> EpochOrder")


def _name(sampler: object) -> str:
    return sampler.__name__ if isinstance(sampler, type) else type(sampler).__name__
