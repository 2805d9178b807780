"""What a loader hands to the training loop."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

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
    is_concealed: torch.Tensor
    """bool [N], or [N, T]: the frame is damaged, and shown as FFmpeg shows it; false throughout
    unless `on_error="conceal"` was asked for."""
    is_pad: torch.Tensor
    """bool [N], or [N, T]: the frame stands in for one that the video, or the segment of it, does
    not have: see `boundary` of the samplers of clips."""
    row: torch.Tensor
    """int64 [N]: place of each sample's row in the manifest that was given; of a list of videos,
    the same as `video`."""
    columns: Mapping[str, torch.Tensor | list[str]] = field(default_factory=dict)
    """What the manifest says of each sample, by the name of the column: see `Manifest.of_rows`.
    They are attributes as well: `batch.label`."""

    def __len__(self) -> int:
        return len(self.video)

    def __getattr__(self, name: str) -> Any:
        columns = self.__dict__.get("columns", {})
        if name in columns:
            return columns[name]
        raise AttributeError(
            f"a Batch has no {name!r}; columns it has: {', '.join(columns) or '-'}"
        )

    @classmethod
    def of(
        cls,
        videos: VideoSet,
        frames: NDArray[np.int64],
        pictures: torch.Tensor,
        is_concealed: NDArray[np.bool_],
        is_pad: NDArray[np.bool_],
        row: NDArray[np.int64] | None = None,
        columns: Mapping[str, torch.Tensor | list[str]] | None = None,
    ) -> Self:
        """Return the batch of `frames`, ids int64 [N] or [N, T] in `videos`, as `pictures`."""
        video, index = videos.population.locate(frames)
        number = videos.number[video if video.ndim == 1 else video[:, 0]]
        return cls(
            frames=pictures,
            video=torch.from_numpy(number),
            index=torch.from_numpy(index),
            pts_seconds=torch.from_numpy(videos.pts_seconds(video, index)),
            is_concealed=torch.from_numpy(is_concealed),
            is_pad=torch.from_numpy(is_pad),
            row=torch.from_numpy(number.copy() if row is None else row),
            columns=columns or {},
        )
