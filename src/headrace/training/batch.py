"""What a loader hands to the training loop."""

from collections.abc import Mapping
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.training.named_tensors import NamedTensors
from headrace.training.video_set import VideoSet


class Batch(NamedTensors):
    """N samples, in the planned order; a sample is a frame, or a clip of T frames.

    Of a `Manifest` it has every other column too, by its name: `batch.label`, `batch["label"]`.
    """

    frames: torch.Tensor
    """uint8 [N, 3, H, W], or [N, T, 3, H, W] of clips; [0, 255], RGB, upright; on the loader's
    device; what `transform` and `batch_transform` made of it, where there are any. Colour is
    innermost in memory (`torch.channels_last`), as decoders give it and convolutions like it. Owned
    by the caller."""
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
    is_repeated: torch.Tensor
    """bool [N]: the sample was given before in this epoch, as its first ones come again at its end
    so that all ranks have equally many. Leave these out of a sum over all ranks, and every sample
    counts once."""
    is_pad: torch.Tensor
    """bool [N], or [N, T]: the frame stands in for one that the video, or the segment of it, does
    not have: see `boundary` of the samplers of clips."""
    row: torch.Tensor
    """int64 [N]: place of each sample's row in the manifest that was given; of a list of videos,
    the same as `video`."""

    @classmethod
    def of(
        cls,
        videos: VideoSet,
        frames: NDArray[np.int64],
        pictures: torch.Tensor,
        is_concealed: NDArray[np.bool_],
        is_repeated: NDArray[np.bool_],
        is_pad: NDArray[np.bool_],
        row: NDArray[np.int64] | None = None,
        columns: Mapping[str, torch.Tensor | list[str]] | None = None,
    ) -> Self:
        """Return the batch of `frames`, ids int64 [N] or [N, T] in `videos`, as `pictures`."""
        video, index = videos.population.locate(frames)
        place = video if video.ndim == 1 else video[:, 0]
        number, sizes = videos.number[place], videos.sizes[place]
        return cls(
            frames=pictures,
            video=torch.from_numpy(number),
            index=torch.from_numpy(index),
            pts_seconds=torch.from_numpy(videos.pts_seconds(video, index)),
            original_size=torch.from_numpy(sizes),
            is_concealed=torch.from_numpy(is_concealed),
            is_repeated=torch.from_numpy(is_repeated),
            is_pad=torch.from_numpy(is_pad),
            row=torch.from_numpy(number.copy() if row is None else row),
            **(columns or {}),
        )
