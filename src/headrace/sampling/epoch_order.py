"""What every sampler gives: the order of one epoch, computed slot by slot."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.units import check_integers, one_of

ClipsAt = Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.bool_]]]
"""Slots in [0, length) → frame ids, int64 [n, T], and which stand in for others, bool [n, T]."""


@dataclass(frozen=True, kw_only=True)
class EpochOrder:
    """Which frames each slot of one epoch delivers: `order[start:stop]`, `order.at(slots)`.

    A slot is a place in what the model is given: slot n is the n-th frame (or clip) of the epoch,
    through all batches and ranks. Any slot can be asked for at any time, in any order; none
    depends on another having been asked for. So seed, epoch and slot are all there is to resume
    from, and workers or ranks may come and go.
    """

    length: int
    """Slots in the epoch."""
    frames_at: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    """Slots in [0, length) → what `at` returns, unchecked."""
    is_pad_at: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None
    """Slots → bool [n, num_frames]: frames of clips that stand in for what the video does not
    have; None: there are none."""
    rows_at: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None
    """Slots → int64 [n]: the row of a manifest that each sample is of; None: samples are of whole
    videos."""
    too_short: tuple[int, ...] = ()
    """Videos that no slot is of, as they are too short for a clip, and were to be skipped."""

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
            length: Slots in the epoch.
            clips_at: Slots → frame ids, and which of them stand in for others; both [n, T].
            has_pads: Whether any may.
            too_short: As the field.
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
        """Return what is delivered in a range of slots, as `at` does; sliced like a list."""
        return self.frames_at(np.arange(*slots.indices(self.length), dtype=np.int64))

    def at(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame ids delivered in `slots`: int64 [n], or [n, num_frames] of clips.

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
"""What happens to slots that do not share out evenly."""


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One rank's part of every epoch: `order.at(shard.slots(start, stop, len(order)))`.

    The order of the whole epoch is dealt to the ranks, not the videos, so what all ranks deliver
    together in a step does not depend on their number: splitting videos would make each rank
    sample from its own few. All ranks get equally many slots.
    """

    rank: int = 0
    ranks: int = 1
    remainder: Remainder = "repeat"
    """`repeat`: the epoch's first slots come again at the end, at most ranks - 1 of them. `drop`:
    as many of its last slots are left out."""

    def __post_init__(self) -> None:
        check_integers(0, rank=self.rank, ranks=self.ranks)
        if not 0 <= self.rank < self.ranks:
            raise ConfigError(
                f"rank must be at least 0 and below the number of ranks, got rank {self.rank} "
                f"of {self.ranks}"
            )
        one_of(Remainder, remainder=self.remainder)

    def count(self, length: int, skip: int = 0) -> int:
        """Return how many slots each rank gets of an epoch of `length`; the same for all ranks.

        `skip` slots of the epoch were delivered before, by however many ranks there were.
        """
        left = length - skip
        return left // self.ranks if self.remainder == "drop" else -(-left // self.ranks)

    def slots(self, start: int, stop: int, length: int, skip: int = 0) -> NDArray[np.int64]:
        """Return slots number [start, stop) of this rank, int64 [stop - start] in [0, length).

        Raises:
            ConfigError: this rank does not get that many slots.
        """
        count = self.count(length, skip)
        if not 0 <= start <= stop <= count:
            raise ConfigError(
                f"slots [{start}, {stop}) were asked of rank {self.rank}, which has {count} in an "
                f"epoch of {length} of which {skip} are skipped"
            )
        return self._places(start, stop, skip) % length

    def is_repeated(self, start: int, stop: int, length: int, skip: int = 0) -> NDArray[np.bool_]:
        """Return which of slots number [start, stop) of this rank were delivered before, bool."""
        return self._places(start, stop, skip) >= length

    def _places(self, start: int, stop: int, skip: int) -> NDArray[np.int64]:
        return skip + np.arange(start, stop, dtype=np.int64) * self.ranks + self.rank
