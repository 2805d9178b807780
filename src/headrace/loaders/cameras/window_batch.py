"""CameraWindowBatch: windows of several moments, each seen by all cameras."""

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.loaders.cameras.moment_table import MetadataOf, MomentMetadata, call_metadata
from headrace.loaders.cameras.window_plan import WindowPlan
from headrace.loaders.contact_sheet.camera_sheet import sheet_of_windows
from headrace.loaders.contact_sheet.contact_sheet import ContactSheet
from headrace.loaders.contact_sheet.sheet_options import SheetOptions
from headrace.loaders.named_tensors import BatchNames, NamedTensors
from headrace.sampling.moment_windows import MISSING


class CameraWindowBatch(NamedTensors):
    """N windows of T moments, each seen by C cameras.

    Moments are in the order of `delta_seconds`, if given, or of time.
    """

    frames: torch.Tensor
    """uint8 [N, T, C, 3, H, W] in [0, 255], RGB, upright, channels innermost in memory, on the
    loader's device; after `transform` and `batch_transform`, if given. Black where a frame is
    missing or lost. Owned by the caller."""
    valid: torch.Tensor
    """bool [N, T, C]: false where a frame is missing (black), cannot be decoded (black; only with
    `on_error="mask"`), or repeats another moment's by the alignment. True for frames of a moment
    that replaces another (`is_pad`)."""
    is_pad: torch.Tensor
    """bool [N, T]: whether the moment replaces one that the clip does not have."""
    is_concealed: torch.Tensor
    """bool [N, T, C]: whether the frame is damaged, and shown as FFmpeg shows it."""
    is_repeated: torch.Tensor
    """bool [N]: whether the window was delivered before in this epoch: the first windows come again
    at its end, so that all ranks have equally many."""
    clip: torch.Tensor
    """int64 [N]: position of the clip in the layout."""
    clip_name: list[str]
    """N names of clips."""
    index: torch.Tensor
    """int64 [N, T]: number of each moment, which is the reference's frame."""
    frame: torch.Tensor
    """int64 [N, T, C]: number of each camera's frame, also of a lost one; -1 where missing."""
    pts_seconds: torch.Tensor
    """float64 [N, T, C]: presentation time of each frame on the common clock; NaN where it is
    missing or lost."""
    error_ms: torch.Tensor
    """float64 [N, T, C]: capture time minus that of the moment; NaN likewise."""
    delta_seconds: torch.Tensor
    """float64 [N, T]: time of each moment minus that of the key moment; below 0: before it."""
    image_matrix: torch.Tensor
    """float64 [N, C, 3, 3]: takes a pixel (x, y, 1) of the camera's upright frame to that of
    `frames`, before any `transform`, for all T moments. Integers are pixel centers, (0, 0, 1) is
    that of the upper left pixel. So `image_matrix @ intrinsics` are the intrinsics of `frames`."""
    metadata: list[list[MomentMetadata]]
    """N lists of T results of `metadata=`; a moment that replaces another has its own. Only if
    `metadata=` is given."""

    @classmethod
    def of(
        cls,
        plan: WindowPlan,
        keys: NDArray[np.int64],
        frames: torch.Tensor,
        *,
        is_concealed: NDArray[np.bool_],
        is_lost: NDArray[np.bool_],
        is_repeated: NDArray[np.bool_],
        matrices: NDArray[np.float64],
        metadata: MetadataOf | None = None,
    ) -> Self:
        """Return the batch of the windows `keys`, int64 [N], of a plan.

        Raises:
            ConfigError: `metadata` fails.
        """
        cameras, rows, clips = plan.cameras, plan.rows[keys], plan.clip[keys].tolist()
        names = [cameras.clips[clip].clip.name for clip in clips]
        seconds = np.where(is_lost, np.nan, cameras.seconds[rows])
        moments = cameras.moment_seconds[rows]
        deltas = moments - cameras.moment_seconds[plan.key_row[keys]][:, None]
        batch = cls(
            frames=frames,
            valid=torch.from_numpy(cameras.is_own[rows] & ~is_lost),
            is_pad=torch.from_numpy(plan.is_pad[keys]),
            is_concealed=torch.from_numpy(is_concealed & (cameras.frame[rows] != MISSING)),
            is_repeated=torch.from_numpy(is_repeated),
            clip=torch.tensor([cameras.clips[clip].number for clip in clips]),
            clip_name=names,
            index=torch.from_numpy(cameras.index[rows]),
            frame=torch.from_numpy(cameras.frame[rows]),
            pts_seconds=torch.from_numpy(seconds),
            error_ms=torch.from_numpy((seconds - moments[..., None]) * 1000),
            delta_seconds=torch.from_numpy(deltas),
            image_matrix=torch.from_numpy(matrices),
        )
        if metadata is not None:
            batch["metadata"] = [
                [call_metadata(metadata, cameras, clip, row) for row in window]
                for clip, window in zip(clips, rows.tolist(), strict=True)
            ]
        return batch.tell(BatchNames(videos=tuple(names), cameras=cameras.cameras))

    def show(
        self,
        samples: int | Sequence[int] | None = None,
        *,
        frames: int = 8,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> ContactSheet:
        """Return the frames as a grid: for each window one row per camera, one column per moment.

        As `Batch.show`. Padded moments and cameras whose frame is missing, lost, repeated or
        concealed are marked.

        Args:
            samples: Number of windows, from the first on, or a list of windows; None: 2.
            frames: Moments of each window, at most 16, evenly from the first to the last.
            mean: Mean of each channel, of frames in [0, 1], if they were normalised.
            std: Standard deviation of each channel, likewise.

        Raises:
            ConfigError: a window does not exist, or `frames` are no longer images of 1 or 3
                channels.
        """
        options = SheetOptions(samples=samples, frames=frames, mean=mean, std=std)
        return sheet_of_windows(self, self._told, options)
