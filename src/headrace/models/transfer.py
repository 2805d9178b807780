"""Taking frames or batches to the device of the model, with the bytes counted."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.models.pinned import PinnedCopy
from headrace.models.precision import Device

Copy = Callable[[torch.Tensor, Device], torch.Tensor]
"""Gives the tensor on the device: the same tensor where it lies there already."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Transferred:
    """A tensor that is where it was wanted."""

    tensor: torch.Tensor
    bytes_copied: int
    """0 where nothing had to be copied: it lay there already."""


def copy_to(tensor: torch.Tensor, device: Device) -> torch.Tensor:
    """Return the tensor on the device. From pageable memory; the caller waits for it."""
    return tensor.to(device)


def copy_for(device: Device) -> Copy:
    """Return how one thread best copies batch after batch to a device."""
    return copy_to if device == "cpu" else PinnedCopy()


def transfer(
    data: torch.Tensor | NDArray[np.uint8], device: Device, *, copy: Copy = copy_to
) -> Transferred:
    """Take a tensor to a device. On the CPU nothing is copied.

    Before preprocessing it takes frames (uint8, one byte a number), which are then preprocessed on
    the device; after it, batches (float32, four).

    Args:
        data: What to take there; an array lies on the CPU.
        device: Where to.
        copy: How; a test hands in one that is slow on purpose.
    """
    tensor = torch.from_numpy(data) if isinstance(data, np.ndarray) else data
    moved = copy(tensor, device)
    return Transferred(tensor=moved, bytes_copied=0 if moved is tensor else moved.nbytes)
