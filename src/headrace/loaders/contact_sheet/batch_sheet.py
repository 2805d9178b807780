"""The contact sheet of a batch of frames, or of clips, each a strip of frames in time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import PurePath
from typing import Any, Final

import torch

from headrace.loaders.contact_sheet.contact_sheet import ContactSheet, Mark, Strip
from headrace.loaders.contact_sheet.sheet_options import (
    Caption,
    Position,
    SheetOptions,
    build_sheet,
    spread,
)
from headrace.loaders.contact_sheet.value_range import images_of
from headrace.loaders.manifest_rows import is_labels
from headrace.loaders.named_tensors import BatchNames

_FRAMES: Final = 32
"""Frames shown by default."""
_CLIPS: Final = 8
"""Clips shown by default."""
_MARKS: Final[dict[str, Mark]] = {
    "is_concealed": "concealed",
    "is_repeated": "repeated",
    "is_pad": "pad",
}


def sheet_of_batch(
    batch: Mapping[str, Any], names: BatchNames, options: SheetOptions
) -> ContactSheet:
    """Return the sheet of a batch, of which all entries but `frames` may be missing.

    Raises:
        ConfigError: a sample does not exist, or `frames` are no images (any more).
    """
    index = batch.get("index")
    images = images_of(
        batch.get("frames"), index.ndim == 2 if isinstance(index, torch.Tensor) else None
    )
    is_clips = images.ndim == 5
    captions = _Captions(batch, names)
    chosen = options.choose(len(images), _CLIPS if is_clips else _FRAMES)
    steps = spread(images.shape[1], options.frames) if is_clips else []
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
        rows, lambda position: images[position], captions.of_image, summarise, options
    )


def _grid(samples: list[int]) -> list[list[Position]]:
    """Return rows of up to 4 or 8 samples, more columns than rows."""
    count = len(samples)
    columns = count if count <= 4 else min(8, ceil(sqrt(1.6 * count)))
    positions: list[Position] = [(sample,) for sample in samples]
    return [positions[k : k + columns] for k in range(0, count, columns)]


@dataclass(frozen=True)
class _Captions:
    """Captions of the samples and frames of a batch."""

    batch: Mapping[str, Any]
    names: BatchNames

    def of_image(self, position: Position) -> Caption:
        """Return the caption of an image: for a clip's frame, without those of the clip."""
        lines = [self._time(position)]
        if len(position) == 1:
            lines = [self._name(position[0]), *lines, self._labels(position[0])]
        return lines, [mark for name, mark in _MARKS.items() if self._has(name, position)]

    def of_clip(self, sample: int) -> str:
        """Return the heading of a clip: name, labels, original size."""
        size = self.batch.get("original_size")
        original = "" if size is None else "from {1} x {0}".format(*size[sample].tolist())
        return ", ".join(filter(None, [self._name(sample), self._labels(sample), original]))

    def _name(self, sample: int) -> str:
        if sample < len(self.names.videos):
            return "/".join(PurePath(self.names.videos[sample]).parts[-2:])
        video = self.batch.get("video")
        if video is not None:
            return f"video {int(video[sample])}"
        return f"sample {sample}" if len(self.batch["frames"]) > 1 else ""

    def _time(self, position: Position) -> str:
        index, seconds = self.batch.get("index"), self.batch.get("pts_seconds")
        texts = [
            "" if index is None else f"#{int(index[position])}",
            "" if seconds is None else f"{float(seconds[position]):.2f} s",
        ]
        return ", ".join(filter(None, texts))

    def _labels(self, sample: int) -> str:
        columns = [name for name in self.batch if is_labels(name)]
        return ", ".join(self._class_name(name, self.batch[name][sample]) for name in columns)

    def _class_name(self, column: str, value: Any) -> str:
        names = self.names.classes.get(column, ())
        number = value.item() if isinstance(value, torch.Tensor) and value.ndim == 0 else value
        if names and isinstance(number, int) and 0 <= number < len(names):
            return names[number]
        return f"{column} {number}"

    def _has(self, name: str, position: Position) -> bool:
        mask = self.batch.get(name)
        return mask is not None and bool(mask[position[: mask.ndim]])
