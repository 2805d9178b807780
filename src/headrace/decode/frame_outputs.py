"""Memory for decoded pixels: arrays on the CPU, or tensors on the decoding device."""

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
    """Return an uninitialized uint8 tensor of `shape` on a device. Loads PyTorch.

    PyTorch's allocator caches and reuses freed memory.

    Raises:
        BackendError: the device is out of memory or missing, or this process was forked from one
            that uses CUDA.
    """
    import torch

    if device != "cpu":
        check_cuda_after_fork(f"frames were requested on {device}")
    try:
        return torch.empty(shape, dtype=torch.uint8, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = first_line(error)[:200]
        raise BackendError(
            f"PyTorch cannot allocate frames of {list(shape)} on {device}: "
            f"{reason}; if memory is short, give a smaller memory_budget, batch or size; or leave "
            "keeps_on_device out"
        ) from error


def finish_work(device: str) -> None:
    """Wait for this thread's current CUDA stream on a GPU."""
    import torch

    if device != "cpu":
        torch.cuda.current_stream(device).synchronize()


Array = NDArray[np.uint8]
"""Pixels on the CPU: uint8."""

Pixels = TypeVar("Pixels", NDArray[np.uint8], "torch.Tensor")
"""Type of a decoder's pixels: arrays, or uint8 tensors on its device."""


class StackedOutput(Generic[Pixels]):
    """An `Out` that stacks frames of one size; the first frame sets the size."""

    def __init__(
        self, count: int, allocate: Callable[[tuple[int, ...]], Pixels] | None = None
    ) -> None:
        """Allocate nothing yet; `allocate` allocates the stack of `count` frames.

        None: the decoder's converter allocates it.
        """
        self._count = count
        self._allocate: Callable[[tuple[int, ...]], Pixels] | None = allocate
        self._frames: Pixels | None = None
        self.misfits: list[int] = []
        """Positions of frames whose size differs from the first frame's."""
        self.first = 0
        """Position of the next job's first frame; set it to fill one stack by several jobs."""

    @property
    def frames(self) -> Pixels:
        """uint8 [count, H, W, 3]; valid once a frame was written."""
        assert self._frames is not None, "no frame was written"
        return self._frames

    def memory_of(
        self,
        position: int,
        shape: tuple[int, ...],
        new: Callable[[tuple[int, ...]], Pixels],
    ) -> Pixels:
        """Return the memory of a frame by its position in the job; `new` allocates by default."""
        if self._frames is None:
            self._frames = (self._allocate or new)((self._count, *shape))
        if tuple(self._frames.shape[1:]) != shape:
            self.misfits.append(self.first + position)
        memory: Pixels = self._frames[self.first + position]
        return memory


class FrameWriter(ABC, Generic[Pixels]):
    """An `Out` that converts each frame itself, into its own memory."""

    @abstractmethod
    def write(self, position: int, frame: VideoFrame) -> Pixels:
        """Convert a frame by its position in the job, which may repeat; return its pixels.

        Raises:
            DecodeError: the frame cannot be converted to the requested format.
        """


Out: TypeAlias = Pixels | Sequence[Pixels] | StackedOutput[Pixels] | FrameWriter[Pixels]
"""Target of decoded frames: uint8 [wanted, H, W, 3], or one uint8 [H, W, 3] per frame; a stack for
sizes not known before; or a writer for several outputs per frame."""
