"""Copying batch after batch to a GPU, while it is at work on the one before."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import torch


class Mark(Protocol):
    """A point in what a GPU was asked for."""

    def synchronize(self) -> None:
        """Wait until the GPU has come to it."""
        ...


MarkOf = TypeVar("MarkOf", bound=Mark)


class Copying(Protocol[MarkOf]):
    """A GPU that copies beside its other work, as `CopyStream` has it."""

    def mark(self) -> MarkOf:
        """Return a mark behind all that the caller has asked of the GPU so far."""
        ...

    def begin(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], MarkOf]:
        """Begin to copy tensors of the CPU; return those on the GPU, and the end of the copy."""
        ...

    def hand_over(self, tensors: Sequence[torch.Tensor], copied: MarkOf) -> None:
        """Let what the caller asks for next wait for a copy, without waiting for it here."""
        ...


class BesideTheWork:
    """Takes the pictures of each batch to a GPU beside its work on the batch before.

    The GPU holds two batches: the one it works on, and the one that is copied. For that the copy
    begins when the work on the batch before the last is done. A loop that asks for work faster than
    the GPU does it would otherwise have batch after batch copied, as its memory is not free again
    before the work on it is done. So the process is at most one step ahead of the GPU.
    """

    def __init__(self, copying: Copying[MarkOf]) -> None:
        """Copy nothing yet."""
        self._copying = copying
        self._before: Mark | None = None
        """Behind the work on the batch before the last."""

    def __call__(self, pictures: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the pictures of a batch on the GPU, for what the caller asks of it next."""
        asked = self._copying.mark()
        if self._before is not None:
            self._before.synchronize()
        self._before = asked
        moved, copied = self._copying.begin(pictures)
        self._copying.hand_over(moved, copied)
        return moved
