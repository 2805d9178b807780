"""From the frames of a step to the batch that the training loop is given."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.training.batch import Batch
from headrace.training.video_set import VideoSet

Transform = Callable[[torch.Tensor], torch.Tensor]
"""What is made of the uint8 frames of a batch, on their device."""


@dataclass(frozen=True)
class Collate:
    """What happens to the frames of every batch."""

    videos: VideoSet
    transform: Transform | None = None
    device: torch.device | str | None = None
    pin_memory: bool = False

    def batch(self, frames: NDArray[np.int64], pixels: NDArray[np.uint8]) -> Batch:
        """Return the batch of `frames`, ids int64 [N] or [N, T], that look like `pixels`.

        `pixels`, uint8 [N, H, W, 3] or [N, T, H, W, 3], becomes the batch's own; it is copied only
        to page-locked memory or to another device.
        """
        video, index = self.videos.population.locate(frames)
        pts_seconds = self.videos.pts_seconds(video, index)
        number = self.videos.number[video if video.ndim == 1 else video[:, 0]]
        pictures = torch.from_numpy(pixels).movedim(-1, -3)
        if self.pin_memory:
            pictures = pictures.pin_memory()
        if self.device is not None:
            pictures = pictures.to(self.device, non_blocking=self.pin_memory)
        if self.transform is not None:
            pictures = self.transform(pictures)
        return Batch(
            frames=pictures,
            video=torch.from_numpy(number),
            index=torch.from_numpy(index),
            pts_seconds=torch.from_numpy(pts_seconds),
        )
