"""CameraBatch: one moment of the clips in all slots; SlotMemory: a model's state by slot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.loaders.batch_sheet import BatchNames, SheetOptions, sheet_of_cameras
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.moment_table import MetadataOf, MomentMetadata, call_metadata
from headrace.loaders.collate import NamedTensors
from headrace.loaders.contact_sheet import ContactSheet
from headrace.loaders.epochs import STATE_VERSION, check_state_version
from headrace.sampling.slots import EMPTY, SlotPlan


@dataclass(frozen=True, kw_only=True)
class SlotCell:
    """Content of one slot of a batch: a moment of a clip, or nothing."""

    slot: int
    """Slot number over all ranks."""
    clip: int
    """Position in `CameraSet.clips`; `EMPTY` for an empty slot."""
    row: int
    """Row in the set's table of moments; `EMPTY` for an empty slot."""
    is_first: bool
    """Whether a sequence starts here."""
    epoch: int = 0
    """Epoch whose order the sequence belongs to; augmentation is drawn from it."""
    seed: int = 0
    """Seed of the sampler; augmentation is drawn from it."""

    @classmethod
    def at(
        cls,
        cameras: CameraSet,
        plan: SlotPlan,
        sequences: NDArray[np.int64],
        slot: int,
        step: int,
        seed: int,
    ) -> Self:
        """Return the content of a slot in a step; `sequences` are what `plan` numbers."""
        sequence, offset = plan.at(slot, step)
        if sequence < 0:
            return cls(slot=slot, clip=EMPTY, row=EMPTY, is_first=False)
        clip, first, _ = sequences[sequence].tolist()
        return cls(
            slot=slot,
            clip=clip,
            row=int(cameras.clip_start[clip]) + first + offset,
            is_first=offset == 0,
            epoch=plan.epoch_at(slot, step),
            seed=seed,
        )


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


def concatenate_batches(parts: Sequence[Mapping[str, Any]]) -> CameraBatch:
    """Return batches with equal entries as one; a single batch is not copied."""
    if len(parts) == 1:
        return CameraBatch(parts[0])
    columns = {name: [part[name] for part in parts] for name in parts[0]}
    return CameraBatch(
        {
            name: torch.cat(column) if isinstance(column[0], torch.Tensor) else [*chain(*column)]
            for name, column in columns.items()
        }
    )


class SlotMemory:
    """Recurrent state of a model by slot, for batches whose positions change their clip.

        memory = SlotMemory(torch.zeros(256, 64))      # state at the start of a clip
        for batch in loader:
            before = memory.of(batch)                  # [N, 256, 64]
            loss, after = model(batch["frames"], before)
            memory.keep(batch, after.detach())

    The key is `batch["slot"]`, so it works with a `CameraLoader`, and with a stock DataLoader with
    any number of workers. The state is reset where `batch["first_frame"]` marks the start of a
    clip. Gradients flow through stored state unless it is detached.

    Args:
        initial: State before the first moment of a clip: a tensor without a batch dimension, or a
            dict of tensors. Stored state has the same device and dtype.

    Raises:
        ConfigError: `initial` has another type.
    """

    def __init__(self, initial: torch.Tensor | dict[str, torch.Tensor]) -> None:
        """Create an empty memory."""
        self._is_tensor = isinstance(initial, torch.Tensor)
        tensors: object = {"": initial} if self._is_tensor else initial
        if (
            not isinstance(tensors, dict)
            or not tensors
            or not all(map(_is_tensor, tensors.values()))
        ):
            raise ConfigError(
                "initial must be a tensor or a dict of tensors, without a batch dimension, got "
                f"{type(initial).__name__}"
            )
        self._initial: dict[str, torch.Tensor] = tensors
        self._stored: dict[int, dict[str, torch.Tensor]] = {}

    def of(self, batch: Mapping[str, Any]) -> Any:
        """Return the state of the N clips of a batch: `initial` with a batch dimension N in front.

        Args:
            batch: A batch with `slot`, int64 [N], and `first_frame`, bool [N].

        Raises:
            ConfigError: the batch lacks `slot` or `first_frame`.
        """
        slots, starts = _column(batch, "slot"), _column(batch, "first_frame")
        rows = [
            self._initial if is_first else self._stored.get(slot, self._initial)
            for slot, is_first in zip(slots, starts, strict=True)
        ]
        state = {name: torch.stack([row[name] for row in rows]) for name in self._initial}
        return state[""] if self._is_tensor else state

    def keep(
        self, batch: Mapping[str, Any], memory: torch.Tensor | dict[str, torch.Tensor]
    ) -> None:
        """Store the state after a batch, with the names and shapes that `of` returns.

        Raises:
            ConfigError: names, dtype, device or shape differ from `initial`, or the number of clips
                differs from the batch.
        """
        slots = _column(batch, "slot")
        tensors: object = {"": memory} if self._is_tensor else memory
        if not isinstance(tensors, dict) or tensors.keys() != self._initial.keys():
            raise ConfigError(f"{self._expected()}, got {_describe(memory)}")
        for name, values in tensors.items():
            initial = self._initial[name]
            if not _is_tensor(values) or values.shape != (len(slots), *initial.shape):
                raise ConfigError(
                    f"{self._expected()} for each of {len(slots)} clips, got {_describe(memory)}"
                )
            if (values.dtype, values.device) != (initial.dtype, initial.device):
                raise ConfigError(
                    f"the state must be {initial.dtype} on {initial.device}, as initial, got "
                    f"{values.dtype} on {values.device}; convert it with .to(initial)"
                )
        for position, slot in enumerate(slots):
            self._stored[slot] = {name: values[position] for name, values in tensors.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the stored state for a checkpoint: slots, and tensors by name."""
        slots = sorted(self._stored)
        rows = [self._stored[slot] for slot in slots]
        return {
            "version": STATE_VERSION,
            "slots": slots,
            "memory": {
                name: torch.stack([row[name].detach() for row in rows]) if rows else None
                for name in self._initial
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state that `state_dict` returned, to the device of `initial`.

        Raises:
            ConfigError: the state has another structure, version, other names or other shapes.
        """
        if not isinstance(state, Mapping) or not {"slots", "memory"} <= state.keys():
            raise ConfigError(
                "a state must be a dict with slots and memory, from state_dict(), got "
                f"{_describe(state)}"
            )
        check_state_version(state)
        slots, tensors = state["slots"], state["memory"]
        has_names = isinstance(tensors, Mapping) and tensors.keys() == self._initial.keys()
        if not has_names or (slots and not self._have_shapes(tensors, len(slots))):
            raise ConfigError(f"{self._expected()}, got {_describe(tensors)}")
        self._stored = {
            slot: {name: tensors[name][row].to(first) for name, first in self._initial.items()}
            for row, slot in enumerate(slots)
        }

    def _have_shapes(self, tensors: Mapping[str, Any], count: int) -> bool:
        return all(
            getattr(tensors[name], "shape", None) == (count, *initial.shape)
            for name, initial in self._initial.items()
        )

    def _expected(self) -> str:
        initial = self._initial[""] if self._is_tensor else self._initial
        return f"the state must be {_describe(initial)}"


def _column(batch: Mapping[str, Any], name: str) -> list[Any]:
    """Return an entry of a batch that has one value per clip."""
    if not isinstance(batch, Mapping) or not _is_tensor(batch.get(name)):
        raise ConfigError(
            f"batch must be a camera batch with a tensor {name}, got {_describe(batch)}; pass the "
            "loader's batch unchanged"
        )
    values: list[Any] = batch[name].tolist()
    return values


def _is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor)


def _describe(memory: object) -> str:
    if isinstance(memory, torch.Tensor):
        return f"[{', '.join(map(str, memory.shape))}]"
    if isinstance(memory, Mapping):
        parts = (f"{name} {_describe(value)}".strip() for name, value in memory.items())
        return ", ".join(parts) or "{}"
    return type(memory).__name__
