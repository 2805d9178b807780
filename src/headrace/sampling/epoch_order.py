"""Order of one epoch, computed slot by slot, and each rank's share of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
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
