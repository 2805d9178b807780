"""The contact sheet of a batch of frames, or of clips: each a strip of frames in time."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import PurePath
from typing import Any, Final

import torch

from headrace.loaders.contact_sheet.contact_sheet import Cell, ContactSheet, Mark, Strip
from headrace.loaders.contact_sheet.sheet_options import (
    SheetOptions,
    fitting,
    most_strips,
    room_for,
    spread,
)
from headrace.loaders.contact_sheet.value_range import (
    Levels,
    fitted,
    levels_of,
    pictures_of,
    size_in,
)
from headrace.loaders.manifest_rows import is_labels
from headrace.loaders.named_tensors import BatchNames

FRAMES: Final = 32
"""Samples that are shown, unless more are asked for."""
CLIPS: Final = 8
_MARKS: Final[dict[str, Mark]] = {
    "is_concealed": "concealed",
    "is_repeated": "repeated",
    "is_pad": "pad",
}

_Place = tuple[int, ...]
"""(sample,) of frames, (sample, step) of clips."""


def sheet_of_batch(batch: Mapping[str, Any], told: BatchNames, look: SheetOptions) -> ContactSheet:
    """Return the sheet of a batch, of which all but `frames` may be missing.

    Raises:
        ConfigError: what is asked for is not there, or `frames` are no pictures (any more).
    """
    index = batch.get("index")
    is_clips = index.ndim == 2 if isinstance(index, torch.Tensor) else None
    pictures = pictures_of(batch.get("frames"), is_clips)
    said, is_clips = _Said(batch, told), pictures.ndim == 5
    chosen = look.places(len(pictures), CLIPS if is_clips else FRAMES)
    steps = spread(pictures.shape[1], look.frames) if is_clips else []
    rows = _rows(chosen, steps)
    room = room_for(max(map(len, rows)))
    rows = rows[: most_strips(size_in(room, pictures[rows[0][0]]))]
    shown = [fitted(pictures[place], room) for row in rows for place in row]
    levels = levels_of(shown, pictures.dtype, look.mean, look.std)
    cells = iter([levels.picture(each, room) for each in shown])
    strips = [
        Strip(
            cells=tuple(said.cell(next(cells), place) for place in row),
            heading=said.of_clip(row[0][0]) if is_clips else "",
        )
        for row in rows
    ]
    kept = fitting(strips)
    count = len(kept) if is_clips else sum(len(strip.cells) for strip in kept)
    return ContactSheet(title=_title(batch["frames"], count, steps, pictures, levels), strips=kept)


def _rows(chosen: list[int], steps: list[int]) -> list[list[_Place]]:
    if steps:
        return [[(each, step) for step in steps] for each in chosen]
    few = 4
    columns = len(chosen) if len(chosen) <= few else min(2 * few, ceil(sqrt(1.6 * len(chosen))))
    places: list[_Place] = [(each,) for each in chosen]
    return [places[k : k + columns] for k in range(0, len(places), columns)]


def _title(
    frames: torch.Tensor, shown: int, steps: list[int], pictures: torch.Tensor, levels: Levels
) -> tuple[str, ...]:
    what = f"{shown} of {len(pictures)} {'clips' if steps else 'frames'}"
    if steps:
        what += f", {len(steps)} of {pictures.shape[1]} frames of each"
    kind = str(frames.dtype).removeprefix("torch.")
    return (f"{what}; {kind} {[*frames.shape]}", *filter(None, [levels.note]))


@dataclass(frozen=True)
class _Said:
    """What a batch says of its samples and frames, in words."""

    batch: Mapping[str, Any]
    told: BatchNames

    def cell(self, picture: Any, place: _Place) -> Cell:
        """Return one picture with what is said of it: of a frame all, of a clip's what differs."""
        is_frame = len(place) == 1
        lines = [self._when(place)]
        if is_frame:
            lines = [self._name(place[0]), *lines, self._label(place[0])]
        marks = [mark for name, mark in _MARKS.items() if self._is(name, place)]
        return Cell(picture=picture, lines=tuple(filter(None, lines)), marks=tuple(marks))

    def of_clip(self, sample: int) -> str:
        """Return what is said of a clip as a whole."""
        size = self.batch.get("original_size")
        was = "" if size is None else "from {1} x {0}".format(*size[sample].tolist())
        return ", ".join(filter(None, [self._name(sample), self._label(sample), was]))

    def _name(self, sample: int) -> str:
        if sample < len(self.told.videos):
            return "/".join(PurePath(self.told.videos[sample]).parts[-2:])
        video = self.batch.get("video")
        if video is not None:
            return f"video {int(video[sample])}"
        return f"sample {sample}" if len(self.batch["frames"]) > 1 else ""

    def _when(self, place: _Place) -> str:
        index, seconds = self.batch.get("index"), self.batch.get("pts_seconds")
        texts = [
            "" if index is None else f"#{int(index[place])}",
            "" if seconds is None else f"{float(seconds[place]):.2f} s",
        ]
        return ", ".join(filter(None, texts))

    def _label(self, sample: int) -> str:
        labels = [name for name in self.batch if is_labels(name)]
        return ", ".join(self._class(name, self.batch[name][sample]) for name in labels)

    def _class(self, column: str, value: Any) -> str:
        names = self.told.classes.get(column, ())
        number = value.item() if isinstance(value, torch.Tensor) and value.ndim == 0 else value
        if names and isinstance(number, int) and 0 <= number < len(names):
            return names[number]
        return f"{column} {number}"

    def _is(self, name: str, place: _Place) -> bool:
        mask = self.batch.get(name)
        return mask is not None and bool(mask[place[: mask.ndim]])
