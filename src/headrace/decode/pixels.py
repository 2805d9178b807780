"""Memory for decoded pixels: arrays on the CPU, or tensors on the device that decoded them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from av.video.frame import VideoFrame

Array = NDArray[np.uint8]
"""Pixels on the CPU: uint8."""

Pixels = TypeVar("Pixels", NDArray[np.uint8], "torch.Tensor")
"""Of one decoder all are of one kind: arrays, or uint8 tensors on its device."""


class Stack(Generic[Pixels]):
    """Frames of one size in one array, as large as the first that comes: an `Out`."""

    def __init__(self, count: int, take: Callable[[tuple[int, ...]], Pixels] | None = None) -> None:
        """Take no memory yet, for `count` frames; `take` gives it, or else the converter does."""
        self._count = count
        self._take: Callable[[tuple[int, ...]], Pixels] | None = take
        self._frames: Pixels | None = None
        self.misfits: list[int] = []
        """Places of frames that came in another size than the first."""
        self.first = 0
        """Place of the first frame of the next job; set it to fill a stack by several."""

    @property
    def frames(self) -> Pixels:
        """uint8 [count, H, W, 3]; ask only when a frame has come."""
        assert self._frames is not None, "no frame has come"
        return self._frames

    def place(
        self,
        number: int,
        shape: tuple[int, ...],
        new: Callable[[tuple[int, ...]], Pixels],
    ) -> Pixels:
        """Return where frame `number` of the job goes, of `shape`; `new` takes memory for all."""
        if self._frames is None:
            self._frames = (self._take or new)((self._count, *shape))
        if tuple(self._frames.shape[1:]) != shape:
            self.misfits.append(self.first + number)
        place: Pixels = self._frames[self.first + number]
        return place


class Writer(ABC, Generic[Pixels]):
    """An `Out` that makes the pixels of each frame itself, and keeps them where it likes."""

    @abstractmethod
    def write(self, number: int, frame: VideoFrame) -> Pixels:
        """Return what was made of frame `number` of the job; it may come again.

        Raises:
            DecodeError: it cannot be made into what is asked for.
        """


Out: TypeAlias = Pixels | Sequence[Pixels] | Stack[Pixels] | Writer[Pixels]
"""Where frames are written: uint8 [wanted, H, W, 3], or one uint8 [H, W, 3] for each of them; or a
stack, where their size is not known before; or a writer, where one becomes several."""
