"""The contact sheet of windows of cameras: a strip for each camera of a window, moments in time."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

import torch

from headrace.errors import ConfigError
from headrace.loaders.contact_sheet.contact_sheet import Cell, ContactSheet, Mark, Strip
from headrace.loaders.contact_sheet.sheet_options import (
    SheetOptions,
    fitting,
    most_strips,
    room_for,
    spread,
)
from headrace.loaders.contact_sheet.value_range import fitted, levels_of, pictures_of, size_in
from headrace.loaders.named_tensors import BatchNames

SLOTS: Final = 4
"""Samples that are shown, unless others are asked for."""
_MOST_SLOTS: Final = 8


def sheet_of_cameras(
    batch: Mapping[str, Any], told: BatchNames, look: SheetOptions
) -> ContactSheet:
    """Return the sheet of a batch of cameras.

    Raises:
        ConfigError: what is asked for is not there, or `frames` are no pictures (any more).
    """
    rows = _camera_images(batch.get("frames"))
    chosen = look.places(len(rows), SLOTS)[:_MOST_SLOTS]
    room, cameras = room_for(len(chosen)), range(len(rows[0]))
    shown = [[fitted(rows[slot][camera], room) for slot in chosen] for camera in cameras]
    every = [each for row in shown for each in row]
    levels = levels_of(every, rows[0][0].dtype, look.mean, look.std)
    strips = [
        Strip(
            heading=told.cameras[camera] if told.cameras else f"camera {camera}",
            cells=tuple(
                _camera_cell(batch, told, slot, camera, levels.picture(picture, room))
                for slot, picture in zip(chosen, row, strict=True)
            ),
        )
        for camera, row in enumerate(shown)
    ]
    kept = fitting(strips)
    what = f"{len(chosen)} of {len(rows)} slots, {len(kept)} of {len(shown)} cameras"
    return ContactSheet(title=(what, *filter(None, [levels.note])), strips=kept)


def _camera_images(frames: Any) -> list[list[torch.Tensor]]:
    """Return one picture for each slot and camera."""
    if isinstance(frames, list):
        # Of a camera that is not there a list has no pixel.
        there = [[e if e.numel() else e.new_zeros(3, 1, 1) for e in row] for row in frames]
        return [[pictures_of(each[None], False)[0] for each in row] for row in there]
    found = pictures_of(frames, None)
    if found.ndim != 5:
        raise ConfigError(f"frames of cameras are [N, C, 3, H, W], got {[*frames.shape]}")
    return [list(row) for row in found]


def _camera_cell(
    batch: Mapping[str, Any], told: BatchNames, slot: int, camera: int, picture: Any
) -> Cell:
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


WINDOWS: Final = 2
"""Samples that are shown, unless others are asked for."""


def sheet_of_windows(
    batch: Mapping[str, Any], told: BatchNames, look: SheetOptions
) -> ContactSheet:
    """Return the sheet of a batch of windows.

    Raises:
        ConfigError: what is asked for is not there, or `frames` are no pictures (any more).
    """
    pictures = _window_images(batch.get("frames"), batch["frame"].shape[1:])
    windows, moments, cameras = pictures.shape[:3]
    chosen, steps = look.places(windows, WINDOWS), spread(moments, look.frames)
    room = room_for(len(steps))
    rows = [(window, camera) for window in chosen for camera in range(cameras)]
    rows = rows[: most_strips(size_in(room, pictures[0, 0, 0]))]
    shown = [
        fitted(pictures[window, step, camera], room) for window, camera in rows for step in steps
    ]
    levels = levels_of(shown, pictures.dtype, look.mean, look.std)
    drawn = iter([levels.picture(each, room) for each in shown])
    kept = fitting(
        [
            Strip(
                heading=_heading(told, window, camera),
                cells=tuple(
                    _window_cell(batch, window, step, camera, next(drawn)) for step in steps
                ),
            )
            for window, camera in rows
        ]
    )
    what = (
        f"{len(chosen)} of {windows} windows, {len(steps)} of {moments} moments of each, "
        f"{len(kept)} of {len(chosen) * cameras} rows of cameras"
    )
    return ContactSheet(title=(what, *filter(None, [levels.note])), strips=kept)


def _window_images(frames: Any, expected: tuple[int, ...]) -> torch.Tensor:
    """Return [N, T, C, 3, H, W]; `expected` are T and C."""
    is_one = isinstance(frames, torch.Tensor) and frames.ndim == 6
    if not is_one or tuple(frames.shape[1:3]) != tuple(expected):
        found = [*frames.shape] if isinstance(frames, torch.Tensor) else type(frames).__name__
        raise ConfigError(
            f"frames of windows are [N, T, C, 3, H, W], here with T and C {[*expected]}, got "
            f"{found}; show them before the transform"
        )
    shown = pictures_of(frames.flatten(1, 2), True)
    return shown.reshape(len(shown), *expected, *shown.shape[2:])


def _heading(told: BatchNames, window: int, camera: int) -> str:
    name = "/".join(PurePath(told.videos[window]).parts[-2:]) if told.videos else f"window {window}"
    return f"{name}, {told.cameras[camera] if told.cameras else f'camera {camera}'}"


def _window_cell(
    batch: Mapping[str, Any], window: int, step: int, camera: int, picture: Any
) -> Cell:
    seconds = float(batch["pts_seconds"][window, step, camera])
    is_there = seconds == seconds
    when = f"#{int(batch['index'][window, step])}" + (f", {seconds:.2f} s" if is_there else "")
    marks: list[Mark] = ["pad"] if bool(batch["is_pad"][window, step]) else []
    if bool(batch["is_concealed"][window, step, camera]):
        marks.append("concealed")
    if not bool(batch["valid"][window, step, camera]):
        marks.append("repeated" if is_there else "missing")
    elif bool(batch["is_repeated"][window]):
        marks.append("repeated")
    return Cell(picture=picture, lines=(when,), marks=tuple(marks))
