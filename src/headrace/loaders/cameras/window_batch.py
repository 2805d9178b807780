"""What a loader of camera windows hands to the training loop."""

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.loaders.cameras.moment_table import MetadataOf, MomentMetadata, metadata_of
from headrace.loaders.cameras.window_plan import WindowPlan
from headrace.loaders.contact_sheet.camera_sheet import sheet_of_windows
from headrace.loaders.contact_sheet.contact_sheet import ContactSheet
from headrace.loaders.contact_sheet.sheet_options import SheetOptions
from headrace.loaders.named_tensors import BatchNames, NamedTensors
from headrace.sampling.moment_windows import MISSING


class CameraWindowBatch(NamedTensors):
    """N windows of T moments, each seen by C cameras; the order of `delta_seconds`, or of time."""

    frames: torch.Tensor
    """uint8 [N, T, C, 3, H, W] in [0, 255], RGB, upright, colour innermost in memory, on the
    loader's device; what `transform` and `batch_transform` made of it, where there are any. Black
    where a camera has no frame, or it is lost. Owned by the caller."""
    valid: torch.Tensor
    """bool [N, T, C]: false where there is no such frame (black), it cannot be decoded (black; only
    with `on_error="mask"`), or another moment's is repeated by the alignment. Frames of a moment
    that stands in for another (`is_pad`) are valid."""
    is_pad: torch.Tensor
    """bool [N, T]: the moment stands in for one that the clip does not have."""
    is_concealed: torch.Tensor
    """bool [N, T, C]: the frame is damaged, and shown as FFmpeg shows it."""
    is_repeated: torch.Tensor
    """bool [N]: the window was given before in this epoch, as its first ones come again at its end
    so that all ranks have equally many."""
    clip: torch.Tensor
    """int64 [N]: place of the clip in the layout."""
    clip_name: list[str]
    """Of each of the N clips."""
    index: torch.Tensor
    """int64 [N, T]: the number of each moment: the reference's frame."""
    frame: torch.Tensor
    """int64 [N, T, C]: frame of each camera, also of one that is lost; -1 where there is none."""
    pts_seconds: torch.Tensor
    """float64 [N, T, C]: presentation time of each frame on the common clock; NaN where none, or
    it is lost."""
    error_ms: torch.Tensor
    """float64 [N, T, C]: how much later than its moment it was taken; NaN likewise."""
    delta_seconds: torch.Tensor
    """float64 [N, T]: how much later than the key moment this moment was; below 0: before it."""
    image_matrix: torch.Tensor
    """float64 [N, C, 3, 3]: takes a pixel (x, y, 1) of the camera's upright picture to that of
    `frames`, before any `transform`, at all T moments alike; whole numbers are the middles of
    pixels, (0, 0, 1) that of the upper left one. So `image_matrix @ intrinsics` are the intrinsics
    of `frames`."""
    metadata: list[list[MomentMetadata]]
    """Of N windows, of T moments each, what `metadata=` has of the moment, as it was made; of one
    that stands in for another, its own. Only where `metadata=` is given."""

    @classmethod
    def of(
        cls,
        plan: WindowPlan,
        keys: NDArray[np.int64],
        pictures: torch.Tensor,
        *,
        is_concealed: NDArray[np.bool_],
        is_lost: NDArray[np.bool_],
        is_repeated: NDArray[np.bool_],
        matrices: NDArray[np.float64],
        metadata: MetadataOf | None = None,
    ) -> Self:
        """Return the batch of the windows of `keys`, int64 [N], as `pictures`.

        Raises:
            ConfigError: `metadata` fails.
        """
        table, rows = plan.table, plan.rows[keys]
        clips, seconds = plan.clip[keys], np.where(is_lost, np.nan, table.seconds[rows])
        moments = table.moment_seconds[rows]
        numbers = np.array([clip.number for clip in table.cameras.clips], np.int64)
        names = [table.clip_names[clip] for clip in clips.tolist()]
        made = cls(
            frames=pictures,
            valid=torch.from_numpy(table.is_own[rows] & ~is_lost),
            is_pad=torch.from_numpy(plan.is_pad[keys]),
            is_concealed=torch.from_numpy(is_concealed & (table.frame[rows] != MISSING)),
            is_repeated=torch.from_numpy(is_repeated),
            clip=torch.from_numpy(numbers[clips]),
            clip_name=names,
            index=torch.from_numpy(table.index[rows]),
            frame=torch.from_numpy(table.frame[rows]),
            pts_seconds=torch.from_numpy(seconds),
            error_ms=torch.from_numpy((seconds - moments[..., None]) * 1000),
            delta_seconds=torch.from_numpy(
                moments - table.moment_seconds[plan.key_row[keys]][:, None]
            ),
            image_matrix=torch.from_numpy(matrices),
        )
        if metadata is not None:
            made["metadata"] = [
                [_metadata(metadata, plan, clip, row) for row in window]
                for clip, window in zip(clips.tolist(), rows.tolist(), strict=True)
            ]
        return made.tell(BatchNames(videos=tuple(names), cameras=table.cameras.cameras))

    def show(
        self,
        samples: int | Sequence[int] | None = None,
        *,
        frames: int = 8,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> ContactSheet:
        """Return the pictures in a grid: of each window a row for each camera, its moments in time.

        As `Batch.show`; moments that are padded, and cameras whose frame is missing, lost, repeated
        or concealed, are marked.

        Args:
            samples: How many windows, from the first on, or which; None: 2.
            frames: Moments of each, at most 16: evenly from its first to its last.
            mean: Of each channel, of pictures in [0, 1], if they were normalised.
            std: Likewise.

        Raises:
            ConfigError: there are no such windows, or transforms have made of `frames` what is no
                picture of 1 or 3 channels.
        """
        look = SheetOptions(samples=samples, frames=frames, mean=mean, std=std)
        return sheet_of_windows(self, self._told, look)


def _metadata(metadata: MetadataOf, plan: WindowPlan, clip: int, row: int) -> MomentMetadata:
    """Return what belongs to a row of the table, which is of a clip."""
    cameras, first = plan.table.cameras, int(plan.table.clip_start[clip])
    return metadata_of(metadata, cameras.clips[clip], row - first, cameras.cameras)
