"""Memory for decoded pixels: arrays on the CPU, or tensors on the device that decoded them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.errors import BackendError, first_line
from headrace.runtime.fork_safety import check_cuda_after_fork

if TYPE_CHECKING:
    import torch
    from av.video.frame import VideoFrame


def device_memory(shape: tuple[int, ...], device: str) -> torch.Tensor:
    """Return a tensor of uint8 on a device, of `shape` and any content. Loads PyTorch.

    PyTorch itself keeps memory that nobody has any more, and gives it again.

    Raises:
        BackendError: the device has no such memory left, or is not here; or this process was
            forked from one that uses CUDA.
    """
    import torch

    if device != "cpu":
        check_cuda_after_fork(f"frames were to lie on {device}")
    try:
        return torch.empty(shape, dtype=torch.uint8, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = first_line(error)[:200]
        raise BackendError(
            f"frames of {list(shape)} were to lie on {device}, and PyTorch gives no memory there: "
            f"{reason}; if it is short, give a smaller memory_budget, batch or size; or leave "
            "keeps_on_device out"
        ) from error


def finish_work(device: str) -> None:
    """Wait until a GPU has done what this thread asked of its current CUDA stream."""
    import torch

    if device != "cpu":
        torch.cuda.current_stream(device).synchronize()


Array = NDArray[np.uint8]
"""Pixels on the CPU: uint8."""

Pixels = TypeVar("Pixels", NDArray[np.uint8], "torch.Tensor")
"""Of one decoder all are of one kind: arrays, or uint8 tensors on its device."""


class StackedOutput(Generic[Pixels]):
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


class FrameWriter(ABC, Generic[Pixels]):
    """An `Out` that makes the pixels of each frame itself, and keeps them where it likes."""

    @abstractmethod
    def write(self, number: int, frame: VideoFrame) -> Pixels:
        """Return what was made of frame `number` of the job; it may come again.

        Raises:
            DecodeError: it cannot be made into what is asked for.
        """


Out: TypeAlias = Pixels | Sequence[Pixels] | StackedOutput[Pixels] | FrameWriter[Pixels]
"""Where frames are written: uint8 [wanted, H, W, 3], or one uint8 [H, W, 3] for each of them; or a
stack, where their size is not known before; or a writer, where one becomes several."""
