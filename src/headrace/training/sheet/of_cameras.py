"""The contact sheet of a batch of cameras: a strip for each camera, the slots side by side."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

import torch

from headrace.errors import ConfigError
from headrace.training.sheet.cells import Cell, Mark, Strip
from headrace.training.sheet.contact_sheet import ContactSheet
from headrace.training.sheet.levels import fitted, levels_of
from headrace.training.sheet.look import Look, fitting, room_for
from headrace.training.sheet.pictures import pictures_of
from headrace.training.sheet.told import Told

SLOTS: Final = 4
"""Samples that are shown, unless others are asked for."""
_MOST_SLOTS: Final = 8


def sheet_of_cameras(batch: Mapping[str, Any], told: Told, look: Look) -> ContactSheet:
    """Return the sheet of a batch of cameras.

    Raises:
        ConfigError: what is asked for is not there, or `frames` are no pictures (any more).
    """
    rows = _pictures(batch.get("frames"))
    chosen = look.places(len(rows), SLOTS)[:_MOST_SLOTS]
    room, cameras = room_for(len(chosen)), range(len(rows[0]))
    shown = [[fitted(rows[slot][camera], room) for slot in chosen] for camera in cameras]
    every = [each for row in shown for each in row]
    levels = levels_of(every, rows[0][0].dtype, look.mean, look.std)
    strips = [
        Strip(
            heading=told.cameras[camera] if told.cameras else f"camera {camera}",
            cells=tuple(
                _cell(batch, told, slot, camera, levels.picture(picture, room))
                for slot, picture in zip(chosen, row, strict=True)
            ),
        )
        for camera, row in enumerate(shown)
    ]
    kept = fitting(strips)
    what = f"{len(chosen)} of {len(rows)} slots, {len(kept)} of {len(shown)} cameras"
    return ContactSheet(title=(what, *filter(None, [levels.note])), strips=kept)


def _pictures(frames: Any) -> list[list[torch.Tensor]]:
    """Return one picture for each slot and camera."""
    if isinstance(frames, list):
        # Of a camera that is not there a list has no pixel.
        there = [[e if e.numel() else e.new_zeros(3, 1, 1) for e in row] for row in frames]
        return [[pictures_of(each[None], False)[0] for each in row] for row in there]
    found = pictures_of(frames, None)
    if found.ndim != 5:
        raise ConfigError(f"frames of cameras are [N, C, 3, H, W], got {[*frames.shape]}")
    return [list(row) for row in found]


def _cell(batch: Mapping[str, Any], told: Told, slot: int, camera: int, picture: Any) -> Cell:
    seconds = float(batch["pts_seconds"][slot, camera])
    is_there = seconds == seconds
    name = "/".join(PurePath(told.videos[slot]).parts[-2:]) if told.videos else f"slot {slot}"
    when = f"#{int(batch['index'][slot])}" + (f", {seconds:.2f} s" if is_there else "")
    marks: list[Mark] = []
    if int(batch["clip"][slot]) < 0:
        name, when, marks = "", "", ["empty"]
    elif not bool(batch["valid"][slot, camera]):
        marks = ["repeated" if is_there else "missing"]
    return Cell(picture=picture, lines=tuple(filter(None, [name, when])), marks=tuple(marks))
