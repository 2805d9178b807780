"""What every sampler gives: the order of one epoch, computed slot by slot."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError

ClipsAt = Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.bool_]]]
"""Slots in [0, length) → frame ids, int64 [n, T], and which stand in for others, bool [n, T]."""


@dataclass(frozen=True, kw_only=True)
class Order:
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
    ) -> "Order":
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
