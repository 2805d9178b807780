"""From the pixels of a step to the pictures that the training loop is given."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import overload

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.training.devices import check_device

Transform = Callable[[torch.Tensor], torch.Tensor]
"""What is made of the uint8 frames of a batch, on their device."""


@dataclass(frozen=True)
class Collate:
    """What happens to the pictures of every batch, in this order: pinned, moved, transformed."""

    transform: Transform | None = None
    device: torch.device | str | None = None
    """None leaves them on the CPU."""
    pin_memory: bool = False

    def __post_init__(self) -> None:
        check_device(self.device, self.pin_memory)

    @overload
    def pictures(self, pixels: NDArray[np.uint8]) -> torch.Tensor: ...
    @overload
    def pictures(self, pixels: list[list[NDArray[np.uint8]]]) -> list[list[torch.Tensor]]: ...
    def pictures(
        self, pixels: NDArray[np.uint8] | list[list[NDArray[np.uint8]]]
    ) -> torch.Tensor | list[list[torch.Tensor]]:
        """Return pixels [..., H, W, 3] as [..., 3, H, W], or each of a list of them.

        They share the memory of `pixels`, which become their own, unless they are pinned or moved.
        """
        if isinstance(pixels, list):
            return [[self.pictures(each) for each in row] for row in pixels]
        pictures = torch.from_numpy(pixels).movedim(-1, -3)
        if self.pin_memory:
            pictures = pictures.pin_memory()
        if self.device is not None:
            pictures = pictures.to(self.device, non_blocking=self.pin_memory)
        if self.transform is None or not pictures.numel():
            return pictures
        return self.transform(pictures)
