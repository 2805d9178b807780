"""Contact sheets of batches: frames, clips in time, and cameras by slot or window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, isnan, sqrt
from numbers import Integral
from pathlib import PurePath
from typing import Any, Final

import torch

from headrace.errors import ConfigError
from headrace.loaders.contact_sheet import Caption, ContactSheet, Mark, Position, Strip, build_sheet
from headrace.loaders.manifest_rows import is_labels
from headrace.units import check_counts, check_integers

_MAX_COLUMNS: Final = 16
"""Max frames shown per clip."""
_FRAMES: Final = 32
"""Frames shown by default."""
_CLIPS: Final = 8
"""Clips shown by default."""
_MARKS: Final[dict[str, Mark]] = {
    "is_concealed": "concealed",
    "is_repeated": "repeated",
    "is_pad": "pad",
}
"""Mask of a batch → its mark."""


@dataclass(frozen=True, kw_only=True)
class BatchNames:
    """Names for captions. A batch that a trainer rebuilt has none; its captions show numbers."""

    videos: tuple[str, ...] = ()
    """File of each sample, or its camera clip."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column of text labels → names of its classes."""
    cameras: tuple[str, ...] = ()
    """Camera names, in the order of the batch."""


@dataclass(frozen=True, kw_only=True)
class SheetOptions:
    """Arguments of `show`; checked when created.

    Raises:
        ConfigError: a number is out of range.
    """

    samples: int | Sequence[int] | None = None
    """Number of samples from the first on, or a list of samples; None: a default number."""
    frames: int = 8
    """Max frames per clip, evenly from the first to the last."""
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_counts(1, _MAX_COLUMNS, frames=self.frames)

    def choose(self, count: int, default: int) -> list[int]:
        """Return the positions of the samples to show among `count`; the first `default` if None.

        Raises:
            ConfigError: a sample does not exist, or the list is empty.
        """
        samples: Any = default if self.samples is None else self.samples
        samples = samples.tolist() if hasattr(samples, "tolist") else samples  # array or tensor
        if isinstance(samples, Integral | str | bytes) or not isinstance(samples, Sequence):
            check_integers(1, samples=samples)
            return list(range(min(count, int(samples))))
        check_integers(0, **{f"samples[{k}]": sample for k, sample in enumerate(samples)})
        if not samples or max(samples) >= count:
            raise ConfigError(
                f"samples must be positions in the batch, from 0 to {count - 1}, got "
                f"{str([*samples])[:80]}"
            )
        return [int(sample) for sample in samples]


def _evenly_spaced(count: int, limit: int) -> list[int]:
    """Return at most `limit` of `count` indices, evenly from the first to the last."""
    if count <= limit:
        return list(range(count))
    return [round(k * (count - 1) / max(1, limit - 1)) for k in range(limit)]


def sheet_of_batch(
    batch: Mapping[str, Any], names: BatchNames, options: SheetOptions
) -> ContactSheet:
    """Return the sheet of a batch; all entries except `frames` may be missing.

    Raises:
        ConfigError: a sample does not exist, or the transformed `frames` are not images.
    """
    index = batch.get("index")
    images = _images_of(
        batch.get("frames"), index.ndim == 2 if isinstance(index, torch.Tensor) else None
    )
    is_clips = images.ndim == 5
    captions = _Captions(batch, names)
    chosen = options.choose(len(images), _CLIPS if is_clips else _FRAMES)
    steps = _evenly_spaced(images.shape[1], options.frames) if is_clips else []
    rows: list[tuple[str, list[Position]]]
    if is_clips:
        rows = [(captions.of_clip(sample), [(sample, step) for step in steps]) for sample in chosen]
    else:
        rows = [("", row) for row in _grid(chosen)]

    def summarise(strips: Sequence[Strip]) -> str:
        count = len(strips) if is_clips else sum(len(strip.cells) for strip in strips)
        text = f"{count} of {len(images)} {'clips' if is_clips else 'frames'}"
        if is_clips:
            text += f", {len(steps)} of {images.shape[1]} frames of each"
        dtype = str(images.dtype).removeprefix("torch.")
        return f"{text}; {dtype} {[*batch['frames'].shape]}"

    return build_sheet(
        rows,
        lambda position: images[position],
        captions.of_image,
        summarise,
        options.mean,
        options.std,
    )


def _grid(samples: list[int]) -> list[list[Position]]:
    """Return rows of at most 8 samples, with more columns than rows."""
    count = len(samples)
    columns = count if count <= 4 else min(8, ceil(sqrt(1.6 * count)))
    positions: list[Position] = [(sample,) for sample in samples]
    return [positions[k : k + columns] for k in range(0, count, columns)]


@dataclass(frozen=True)
class _Captions:
    """Captions of the samples and frames of a batch; all entries may be missing."""

    batch: Mapping[str, Any]
    names: BatchNames
    kind: str = "sample"
    """Word for a sample without a name."""

    def of_image(self, position: Position) -> Caption:
        """Return the caption of an image; a clip's frame has no name and labels, the clip has."""
        lines = [self.time(position)]
        if len(position) == 1:
            lines = [self.name(position[0]), *lines, self._labels(position[0])]
        return lines, [mark for name, mark in _MARKS.items() if self.has(name, position)]

    def of_clip(self, sample: int) -> str:
        """Return the heading of a clip: name, labels, original size."""
        size = self.batch.get("original_size")
        original = "" if size is None else "from {1} x {0}".format(*size[sample].tolist())
        return ", ".join(filter(None, [self.name(sample), self._labels(sample), original]))

    def name(self, sample: int) -> str:
        """Return the name of a sample: its file or clip, otherwise its number."""
        if sample < len(self.names.videos):
            return "/".join(PurePath(self.names.videos[sample]).parts[-2:])
        if self.kind == "sample" and self.batch.get("video") is not None:
            return f"video {int(self.batch['video'][sample])}"
        is_only = self.kind == "sample" and len(self.batch["frames"]) == 1
        return "" if is_only else f"{self.kind} {sample}"

    def time(self, position: Position) -> str:
        """Return the index and the time of a frame, if the batch has them."""
        index, seconds = self.batch.get("index"), self.batch.get("pts_seconds")
        texts = []
        if index is not None:
            texts.append(f"#{int(index[position[: index.ndim]])}")
        if seconds is not None and not isnan(seconds[position]):
            texts.append(f"{float(seconds[position]):.2f} s")
        return ", ".join(texts)

    def absence(self, position: Position) -> list[Mark]:
        """Return the mark of a camera's frame that is missing or repeated."""
        if "valid" not in self.batch or self.has("valid", position):
            return []
        return ["missing" if isnan(self.batch["pts_seconds"][position]) else "repeated"]

    def camera(self, number: int) -> str:
        """Return the name of a camera."""
        return self.names.cameras[number] if self.names.cameras else f"camera {number}"

    def has(self, name: str, position: Position) -> bool:
        """Return whether a mask is set at a position."""
        mask = self.batch.get(name)
        return mask is not None and bool(mask[position[: mask.ndim]])

    def _labels(self, sample: int) -> str:
        columns = [name for name in self.batch if is_labels(name)]
        return ", ".join(self._class_name(name, self.batch[name][sample]) for name in columns)

    def _class_name(self, column: str, value: Any) -> str:
        names = self.names.classes.get(column, ())
        number = value.item() if isinstance(value, torch.Tensor) and value.ndim == 0 else value
        if names and isinstance(number, int) and 0 <= number < len(names):
            return names[number]
        return f"{column} {number}"


_SLOTS: Final = 4
"""Slots shown by default."""
_MAX_SLOTS: Final = 8
_WINDOWS: Final = 2
"""Windows shown by default."""


def sheet_of_cameras(
    batch: Mapping[str, Any], names: BatchNames, options: SheetOptions
) -> ContactSheet:
    """Return the sheet of a camera batch: one strip per camera.

    Raises:
        ConfigError: a slot does not exist, or the transformed `frames` are not images.
    """
    images, captions = _camera_images(batch.get("frames")), _Captions(batch, names, "slot")
    slots = options.choose(len(images), _SLOTS)[:_MAX_SLOTS]
    rows: list[tuple[str, list[Position]]] = [
        (captions.camera(camera), [(slot, camera) for slot in slots])
        for camera in range(len(images[0]))
    ]

    def caption_at(position: Position) -> Caption:
        slot, _ = position
        if int(batch["clip"][slot]) < 0:
            return (), ["empty"]
        return [captions.name(slot), captions.time(position)], captions.absence(position)

    return build_sheet(
        rows,
        lambda position: images[position[0]][position[1]],
        caption_at,
        lambda strips: f"{len(slots)} of {len(images)} slots, {len(strips)} of {len(rows)} cameras",
        options.mean,
        options.std,
    )


def sheet_of_windows(
    batch: Mapping[str, Any], names: BatchNames, options: SheetOptions
) -> ContactSheet:
    """Return the sheet of a window batch: one strip per window and camera.

    Raises:
        ConfigError: a window does not exist, or the transformed `frames` are not images.
    """
    images = _window_images(batch.get("frames"), batch["frame"].shape[1:])
    captions = _Captions(batch, names, "window")
    num_windows, moments, cameras = images.shape[:3]
    windows, steps = options.choose(num_windows, _WINDOWS), _evenly_spaced(moments, options.frames)
    rows: list[tuple[str, list[Position]]] = [
        (
            f"{captions.name(window)}, {captions.camera(camera)}",
            [(window, step, camera) for step in steps],
        )
        for window in windows
        for camera in range(cameras)
    ]

    def caption_at(position: Position) -> Caption:
        masks = ("is_pad", "is_concealed")
        marks = [_MARKS[name] for name in masks if captions.has(name, position)]
        absence = captions.absence(position)
        if not absence and captions.has("is_repeated", position):
            absence = ["repeated"]
        return [captions.time(position)], [*marks, *absence]

    return build_sheet(
        rows,
        lambda position: images[position],
        caption_at,
        lambda strips: (
            f"{len(windows)} of {num_windows} windows, {len(steps)} of {moments} moments of each, "
            f"{len(strips)} of {len(rows)} rows of cameras"
        ),
        options.mean,
        options.std,
    )


def _camera_images(frames: Any) -> list[list[torch.Tensor]]:
    """Return one image for each slot and camera."""
    if isinstance(frames, list):
        # Ragged lists hold empty tensors for empty slots.
        return [
            [
                _images_of((image if image.numel() else image.new_zeros(3, 1, 1))[None], False)[0]
                for image in row
            ]
            for row in frames
        ]
    images = _images_of(frames, None)
    if images.ndim != 5:
        raise ConfigError(f"frames of cameras must be [N, C, 3, H, W], got {[*frames.shape]}")
    return [list(row) for row in images]


def _window_images(frames: Any, expected: tuple[int, ...]) -> torch.Tensor:
    """Return frames as [N, T, C, 3, H, W]; `expected` is (T, C)."""
    is_windows = isinstance(frames, torch.Tensor) and frames.ndim == 6
    if not is_windows or tuple(frames.shape[1:3]) != tuple(expected):
        shape = [*frames.shape] if isinstance(frames, torch.Tensor) else type(frames).__name__
        raise ConfigError(
            f"frames of windows must be [N, T, C, 3, H, W] with [T, C] = {[*expected]}, got "
            f"{shape}; show them before the transform"
        )
    images = _images_of(frames.flatten(1, 2), True)
    return images.reshape(len(images), *expected, *images.shape[2:])


_CHANNELS = (1, 3)
_EXPECTED = "frames of a batch must be images [N, 3, H, W] or clips [N, T, 3, H, W]"


def _images_of(frames: Any, is_clips: bool | None) -> torch.Tensor:
    """Return frames as [N, C, H, W], or clips as [N, T, C, H, W], C 1 or 3; a view.

    Also accepts channels-last frames, and clips [N, C, T, H, W] as for 3-D networks.

    Args:
        frames: Entry `frames` of a batch.
        is_clips: Whether the samples are clips; None: unknown.

    Raises:
        ConfigError: the frames have another shape, or are empty.
    """
    if not isinstance(frames, torch.Tensor):
        raise ConfigError(
            f"{_EXPECTED}, got {type(frames).__name__}; show them before the transform"
        )
    if frames.ndim not in (4, 5) or is_clips not in (None, frames.ndim == 5):
        raise ConfigError(f"{_EXPECTED}, got {[*frames.shape]}; show them before the transform")
    shape = frames.shape
    if 0 in shape or frames.is_complex():
        raise ConfigError(f"{_EXPECTED}, got {frames.dtype} {[*shape]}, which cannot be shown")
    if shape[-3] in _CHANNELS:
        return frames.detach()
    if frames.ndim == 5 and shape[1] in _CHANNELS:
        return frames.detach().transpose(1, 2)
    if shape[-1] in _CHANNELS:
        return frames.detach().movedim(-1, -3)
    raise ConfigError(f"{_EXPECTED}, got {[*shape]}, which has no dimension of 3 or 1 channels")
