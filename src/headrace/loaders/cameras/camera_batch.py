"""CameraBatch and CameraWindowBatch: moments, or windows of moments, seen by all cameras."""

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.loaders.batch import NamedTensors
from headrace.loaders.cameras.camera_set import CameraSet, SlotCell
from headrace.loaders.cameras.moment_table import MetadataOf, MomentMetadata, call_metadata
from headrace.loaders.cameras.window_plan import WindowPlan
from headrace.loaders.contact_sheet.batch_sheet import sheet_of_cameras, sheet_of_windows
from headrace.loaders.contact_sheet.contact_sheet import ContactSheet
from headrace.loaders.contact_sheet.sheet_options import BatchNames, SheetOptions
from headrace.sampling.moments import MISSING


class CameraBatch(NamedTensors):
    """One moment of N clips, each seen by C cameras."""

    frames: torch.Tensor | list[list[torch.Tensor]]
    """uint8 [N, C, 3, H, W] in [0, 255], RGB, upright, channels innermost in memory, on the
    loader's device, or on the device that decoded them if they stay there; after `transform` and
    `batch_transform`, if given. With ragged="list": N lists of C tensors [3, H, W]. Owned by the
    caller."""
    sizes: torch.Tensor
    """int64 [N, C, 2]: (height, width) of each frame; smaller than `frames` where it is padded."""
    valid: torch.Tensor
    """bool [N, C]: false where a frame is missing (black), or repeats another moment's."""
    first_frame: torch.Tensor
    """bool [N]: whether a sequence starts in this slot, so the model's state of the slot must be
    reset."""
    slot: torch.Tensor
    """int64 [N]: slot number over all ranks; a clip stays in its slot."""
    clip: torch.Tensor
    """int64 [N]: position of the clip in the layout; -1 for an empty slot."""
    clip_name: list[str]
    """N names of clips; "" for an empty slot."""
    index: torch.Tensor
    """int64 [N]: number of the moment: its frame of the reference; -1 for an empty slot."""
    frame: torch.Tensor
    """int64 [N, C]: number of each camera's frame; -1 where it is missing."""
    pts_seconds: torch.Tensor
    """float64 [N, C]: presentation time of each frame on the common clock; NaN where missing."""
    error_ms: torch.Tensor
    """float64 [N, C]: capture time of the frame minus time of the moment; NaN where missing."""
    metadata: list[MomentMetadata]
    """N results of `metadata=`, one per moment; {} for an empty slot. Only if `metadata=` is
    given."""
    image_matrix: torch.Tensor
    """float64 [N, C, 3, 3]: maps a pixel (x, y, 1) of the camera's upright frame to its position in
    `frames`, before any `transform`. Integers are pixel centers; (0, 0, 1) is the upper left pixel.
    So `image_matrix @ intrinsics` are the intrinsics of `frames`. The identity for an empty
    slot."""

    @property
    def mask(self) -> torch.Tensor | list[list[torch.Tensor]]:
        """Mask of the pixels of `frames` that belong to a frame; computed on each access.

        bool [N, C, H, W], on the device of `frames`: false in the padding, and for all pixels of a
        missing or lost frame. True for a repeated frame, which `valid` marks, and for black pixels
        of a view or its augmentation. With ragged="list": N lists of C tensors [H, W].

        Raises:
            ConfigError: `transform` made the frames smaller than `sizes`.
        """
        is_there = ~self.pts_seconds.isnan()
        if isinstance(self.frames, list):
            return [
                [
                    torch.full(size, is_frame, device=frame.device)
                    for frame, size, is_frame in zip(*row, strict=True)
                ]
                for row in zip(self.frames, self.sizes.tolist(), is_there.tolist(), strict=True)
            ]
        (height, width), device = self.frames.shape[-2:], self.frames.device
        largest = self.sizes.amax((0, 1)).tolist()
        if largest[0] > height or largest[1] > width:
            raise ConfigError(
                f"mask applies to frames as decoded, up to {largest}, but transform resized them "
                f"to {[height, width]}; set the size with size="
            )
        sizes = (self.sizes * is_there[..., None]).to(device)[..., None, None]
        rows = torch.arange(height, device=device)[:, None] < sizes[:, :, 0]
        columns = torch.arange(width, device=device) < sizes[:, :, 1]
        return rows & columns

    @classmethod
    def of(
        cls,
        cameras: CameraSet,
        cells: Sequence[SlotCell],
        frames: torch.Tensor | list[list[torch.Tensor]],
        sizes: NDArray[np.int64],
        is_lost: NDArray[np.bool_],
        matrices: NDArray[np.float64],
        metadata: MetadataOf | None = None,
    ) -> Self:
        """Return the batch of N `cells` of `cameras`.

        Args:
            cameras: The clips.
            cells: One per slot.
            frames: Value of the field `frames`.
            sizes: int64 [N, C, 2].
            is_lost: bool [N, C]: frames that could not be decoded.
            matrices: float64 [N, C, 3, 3].
            metadata: Called for each moment.

        Raises:
            ConfigError: `metadata` fails.
        """
        rows = np.array([cell.row for cell in cells], np.int64)
        clips = [cameras.clips[cell.clip] if cell.clip >= 0 else None for cell in cells]
        names = ["" if clip is None else clip.clip.name for clip in clips]
        seconds = np.where(is_lost, np.nan, cameras.seconds[rows])
        moments = cameras.moment_seconds[rows]
        batch = cls(
            frames=frames,
            sizes=torch.from_numpy(sizes),
            valid=torch.from_numpy(cameras.is_own[rows] & ~is_lost),
            first_frame=torch.tensor([cell.is_first for cell in cells]),
            slot=torch.tensor([cell.slot for cell in cells]),
            clip=torch.tensor([-1 if clip is None else clip.number for clip in clips]),
            clip_name=names,
            index=torch.from_numpy(cameras.index[rows]),
            frame=torch.from_numpy(cameras.frame[rows]),
            pts_seconds=torch.from_numpy(seconds),
            error_ms=torch.from_numpy((seconds - moments[:, None]) * 1000),
            image_matrix=torch.from_numpy(matrices),
        )
        if metadata is not None:
            batch["metadata"] = [
                call_metadata(metadata, cameras, cell.clip, cell.row) for cell in cells
            ]
        return batch.with_names(BatchNames(videos=tuple(names), cameras=cameras.cameras))

    def show(
        self,
        samples: int | Sequence[int] | None = None,
        *,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> ContactSheet:
        """Return the frames as a grid: one row per camera, one column per slot.

        As `Batch.show`. Empty slots, and missing and repeated frames, are marked.

        Args:
            samples: Number of slots from the first on, or a list of slots; at most 8; None: 4.
            mean: Mean of each channel that a normalization subtracted, for frames in [0, 1].
            std: Standard deviation of each channel that it divided by.

        Raises:
            ConfigError: a slot does not exist, or the transformed `frames` are not images with 1 or
                3 channels.
        """
        options = SheetOptions(samples=samples, mean=mean, std=std)
        return sheet_of_cameras(self, self._names, options)


class CameraWindowBatch(NamedTensors):
    """N windows of T moments, each seen by C cameras.

    Moments are in the order of `delta_seconds` if given, otherwise in the order of time.
    """

    frames: torch.Tensor
    """uint8 [N, T, C, 3, H, W] in [0, 255], RGB, upright, channels innermost in memory, on the
    loader's device; after `transform` and `batch_transform`, if given. Black where a frame is
    missing or lost. Owned by the caller."""
    valid: torch.Tensor
    """bool [N, T, C]: false where a frame is missing (black), cannot be decoded (black; only with
    `on_error="mask"`), or repeats another moment's frame (`Alignment.on_missing`). True for frames
    of a moment that replaces another (`is_pad`)."""
    is_pad: torch.Tensor
    """bool [N, T]: whether the moment replaces one that the clip does not have."""
    is_concealed: torch.Tensor
    """bool [N, T, C]: whether the frame is damaged and concealed by FFmpeg."""
    is_repeated: torch.Tensor
    """bool [N]: whether the window was delivered before in this epoch. The first windows are
    repeated at its end, so that all ranks have equally many."""
    clip: torch.Tensor
    """int64 [N]: position of the clip in the layout."""
    clip_name: list[str]
    """N names of clips."""
    index: torch.Tensor
    """int64 [N, T]: number of each moment: its frame of the reference."""
    frame: torch.Tensor
    """int64 [N, T, C]: number of each camera's frame, also if lost; -1 where missing."""
    pts_seconds: torch.Tensor
    """float64 [N, T, C]: presentation time of each frame on the common clock; NaN where it is
    missing or lost."""
    error_ms: torch.Tensor
    """float64 [N, T, C]: capture time of the frame minus time of the moment; NaN where it is
    missing or lost."""
    delta_seconds: torch.Tensor
    """float64 [N, T]: time of each moment minus time of the key moment; below 0: before it."""
    image_matrix: torch.Tensor
    """float64 [N, C, 3, 3]: maps a pixel (x, y, 1) of the camera's upright frame to its position in
    `frames`, before any `transform`, for all T moments. Integers are pixel centers; (0, 0, 1) is
    the upper left pixel. So `image_matrix @ intrinsics` are the intrinsics of `frames`."""
    metadata: list[list[MomentMetadata]]
    """N lists of T results of `metadata=`; a replacement moment has its own metadata. Only if
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
        return batch.with_names(BatchNames(videos=tuple(names), cameras=cameras.cameras))

    def show(
        self,
        samples: int | Sequence[int] | None = None,
        *,
        frames: int = 8,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> ContactSheet:
        """Return the frames as a grid: one row per window and camera, one column per moment.

        As `Batch.show`. Padded moments, and missing, lost, repeated and concealed frames, are
        marked.

        Args:
            samples: Number of windows from the first on, or a list of windows; None: 2.
            frames: Max moments shown per window, evenly from the first to the last; at most 16.
            mean: Mean of each channel that a normalization subtracted, for frames in [0, 1].
            std: Standard deviation of each channel that it divided by.

        Raises:
            ConfigError: a window does not exist, or the transformed `frames` are not images with 1
                or 3 channels.
        """
        options = SheetOptions(samples=samples, frames=frames, mean=mean, std=std)
        return sheet_of_windows(self, self._names, options)
