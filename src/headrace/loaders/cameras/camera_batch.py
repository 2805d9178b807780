"""What a camera loader hands to the training loop."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.moment_table import MetadataOf, MomentMetadata, metadata_of
from headrace.loaders.contact_sheet.camera_sheet import sheet_of_cameras
from headrace.loaders.contact_sheet.contact_sheet import ContactSheet
from headrace.loaders.contact_sheet.sheet_options import SheetOptions
from headrace.loaders.named_tensors import BatchNames, NamedTensors
from headrace.sampling.moment_windows import MISSING

Ragged = Literal["pad", "list"]
"""What becomes of cameras of different sizes: one tensor, black on the right and below, or a list
of tensors for each slot."""


@dataclass(frozen=True, kw_only=True)
class SlotCell:
    """What one slot of a batch shows."""

    slot: int
    """Of all ranks together."""
    clip: int
    """Place in the set's clips; `EMPTY` where the slot has nothing to read."""
    row: int
    """Moment of the clip, as a row of its table; `EMPTY` likewise."""
    is_first: bool
    """Whether a sequence begins here."""
    epoch: int = 0
    """The one whose order the sequence is of; what is drawn for it follows from it."""
    seed: int = 0
    """Of the sampler; likewise."""


class CameraBatch(NamedTensors):
    """One moment of N clips, each seen by C cameras."""

    frames: torch.Tensor | list[list[torch.Tensor]]
    """uint8 [N, C, 3, H, W] in [0, 255], RGB, upright, colour innermost in memory, on the loader's
    device, or where they were decoded if they stay there; what `transform` and `batch_transform`
    made of it, where there are any. With ragged="list": N lists of C tensors [3, H, W]. Owned by
    the caller."""
    sizes: torch.Tensor
    """int64 [N, C, 2]: (height, width) of each picture; less than that of `frames` if padded."""
    valid: torch.Tensor
    """bool [N, C]: false where there is no such frame (black), or another moment's is repeated."""
    first_frame: torch.Tensor
    """bool [N]: a sequence begins in this slot: what a model remembers of it is void."""
    slot: torch.Tensor
    """int64 [N]: the slot of all ranks together; a clip stays in its slot."""
    clip: torch.Tensor
    """int64 [N]: place of the clip in the layout; -1 where the slot has nothing to read."""
    clip_name: list[str]
    """Of N clips; "" likewise."""
    index: torch.Tensor
    """int64 [N]: number of the moment: frame of the reference; -1 likewise."""
    frame: torch.Tensor
    """int64 [N, C]: number of each camera's frame; -1 where none."""
    pts_seconds: torch.Tensor
    """float64 [N, C]: presentation time of each frame on the common clock; NaN where none."""
    error_ms: torch.Tensor
    """float64 [N, C]: how much later than its moment it was taken; NaN where none."""
    metadata: list[MomentMetadata]
    """Of N moments, what `metadata=` has of each, as it was made; {} where the slot has nothing to
    read. Only where `metadata=` is given."""

    image_matrix: torch.Tensor
    """float64 [N, C, 3, 3]: takes a pixel (x, y, 1) of the camera's upright picture to that of
    `frames`, before any `transform`; whole numbers are the middles of pixels, (0, 0, 1) that of
    the upper left one. So `image_matrix @ intrinsics` are the intrinsics of `frames`. The identity
    where the slot has nothing to read."""

    @property
    def mask(self) -> torch.Tensor | list[list[torch.Tensor]]:
        """Where `frames` show a picture, on their device; made anew each time it is asked for.

        bool [N, C, H, W]: false in the padding, and all over where there is no frame, or it is
        lost. A repeated frame is a picture, and so is what a view or its chance leaves black in
        it; `valid` tells a repeated one from others. With ragged="list": N
        lists of C tensors [H, W].

        Raises:
            ConfigError: `transform` made the pictures smaller, so that `sizes` are not theirs.
        """
        is_there = ~self.pts_seconds.isnan()
        if isinstance(self.frames, list):
            return [
                [
                    torch.full(size, there, device=picture.device)
                    for picture, size, there in zip(*row, strict=True)
                ]
                for row in zip(self.frames, self.sizes.tolist(), is_there.tolist(), strict=True)
            ]
        (height, width), device = self.frames.shape[-2:], self.frames.device
        largest = self.sizes.amax((0, 1)).tolist()
        if largest[0] > height or largest[1] > width:
            raise ConfigError(
                f"a mask was asked for, which is of pictures as they were decoded, {largest} in "
                f"size, and transform made {[height, width]} of them; leave their size to size="
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
        pictures: torch.Tensor | list[list[torch.Tensor]],
        sizes: NDArray[np.int64],
        is_lost: NDArray[np.bool_],
        matrices: NDArray[np.float64],
        metadata: MetadataOf | None = None,
    ) -> Self:
        """Return the batch of N `cells`.

        Args:
            cameras: What the cells are of.
            cells: What each slot shows.
            pictures: As `frames` has them.
            sizes: int64 [N, C, 2].
            is_lost: bool [N, C]: frames that are damaged.
            matrices: float64 [N, C, 3, 3].
            metadata: What belongs to each moment.

        Raises:
            ConfigError: `metadata` fails.
        """
        facts = [_facts(cameras, cell) for cell in cells]
        own = np.stack([is_own for is_own, _ in facts])
        seconds = np.where(is_lost, np.nan, np.stack([times for _, times in facts]))
        moments = np.array([_moment(cameras, cell) for cell in cells])
        clips = [cameras.clips[c.clip].number if c.clip >= 0 else -1 for c in cells]
        index = [int(cameras.clips[c.clip].moments[c.row]) if c.clip >= 0 else -1 for c in cells]
        names = [cameras.clips[c.clip].clip.name if c.clip >= 0 else "" for c in cells]
        frames = np.stack([_frames(cameras, cell) for cell in cells])
        made = cls(
            frames=pictures,
            sizes=torch.from_numpy(sizes),
            valid=torch.from_numpy(own & ~is_lost),
            first_frame=torch.tensor([cell.is_first for cell in cells]),
            slot=torch.tensor([cell.slot for cell in cells]),
            clip=torch.tensor(clips),
            clip_name=names,
            index=torch.tensor(index),
            frame=torch.from_numpy(frames),
            pts_seconds=torch.from_numpy(seconds),
            error_ms=torch.from_numpy((seconds - moments[:, None]) * 1000),
            image_matrix=torch.from_numpy(matrices),
        )
        if metadata is not None:
            made["metadata"] = [_metadata(metadata, cameras, cell) for cell in cells]
        return made.tell(BatchNames(videos=tuple(names), cameras=cameras.cameras))

    def show(
        self,
        samples: int | Sequence[int] | None = None,
        *,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> ContactSheet:
        """Return the pictures in a grid: a row for each camera, the slots side by side.

        As `Batch.show`; slots that are empty, and cameras whose frame is missing or repeated, are
        marked.

        Args:
            samples: How many slots, from the first on, or which; 8 at most; None: 4.
            mean: Of each channel, of pictures in [0, 1], if they were normalised.
            std: Likewise.

        Raises:
            ConfigError: there are no such slots, or transforms have made of `frames` what is no
                picture of 1 or 3 channels.
        """
        look = SheetOptions(samples=samples, mean=mean, std=std)
        return sheet_of_cameras(self, self._told, look)


def _facts(cameras: CameraSet, cell: SlotCell) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return of each camera whether it has a frame of this moment's own, and its time."""
    count = len(cameras.cameras)
    if cell.clip < 0:
        return np.zeros(count, bool), np.full(count, np.nan)
    clip = cameras.clips[cell.clip]
    frames = clip.frames[cell.row]
    seconds = [
        times[frame] if frame != MISSING else np.nan
        for times, frame in zip(clip.seconds, frames.tolist(), strict=True)
    ]
    return clip.is_own[cell.row], np.array(seconds)


def _moment(cameras: CameraSet, cell: SlotCell) -> float:
    """Return when the moment is, also where the reference has lost its frame."""
    if cell.clip < 0:
        return float("nan")
    clip = cameras.clips[cell.clip]
    return float(clip.moment_seconds[cell.row])


def _frames(cameras: CameraSet, cell: SlotCell) -> NDArray[np.int64]:
    """Return int64 [C]: the frame of each camera."""
    if cell.clip < 0:
        return np.full(len(cameras.cameras), MISSING)
    frames: NDArray[np.int64] = cameras.clips[cell.clip].frames[cell.row]
    return frames


def _metadata(metadata: MetadataOf, cameras: CameraSet, cell: SlotCell) -> MomentMetadata:
    if cell.clip < 0:
        return MomentMetadata()
    return metadata_of(metadata, cameras.clips[cell.clip], cell.row, cameras.cameras)
