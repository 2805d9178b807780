"""What a loader hands to the training loop."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.training.video_set import VideoSet


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """N samples, in the planned order; a sample is a frame, or a clip of T frames."""

    frames: torch.Tensor
    """uint8 [N, 3, H, W], or [N, T, 3, H, W] of clips; [0, 255], RGB, upright; on the loader's
    device; what `transform` made of it, where there is one. Colour is innermost in memory
    (`torch.channels_last`), as decoders give it and convolutions like it. Owned by the caller."""
    video: torch.Tensor
    """int64 [N]: place of each sample's video in the list that was given."""
    index: torch.Tensor
    """int64 [N], or [N, T]: place of each frame in presentation order."""
    pts_seconds: torch.Tensor
    """float64 [N], or [N, T]: presentation time of each frame."""
    original_size: torch.Tensor
    """int64 [N, 2]: (height, width) of upright frames of its video, before they were resized."""
    is_concealed: torch.Tensor
    """bool [N], or [N, T]: the frame is damaged, and shown as FFmpeg shows it; false throughout
    unless `on_error="conceal"` was asked for."""

    def __len__(self) -> int:
        return len(self.video)

    @classmethod
    def of(
        cls,
        videos: VideoSet,
        frames: NDArray[np.int64],
        pictures: torch.Tensor,
        is_concealed: NDArray[np.bool_],
    ) -> Self:
        """Return the batch of `frames`, ids int64 [N] or [N, T] in `videos`, as `pictures`."""
        video, index = videos.population.locate(frames)
        sizes = videos.sizes[video if video.ndim == 1 else video[:, 0]]
        return cls(
            frames=pictures,
            video=torch.from_numpy(videos.number[video if video.ndim == 1 else video[:, 0]]),
            index=torch.from_numpy(index),
            pts_seconds=torch.from_numpy(videos.pts_seconds(video, index)),
            original_size=torch.from_numpy(sizes),
            is_concealed=torch.from_numpy(is_concealed),
        )
