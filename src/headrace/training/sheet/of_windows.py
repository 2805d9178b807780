"""The contact sheet of windows of cameras: a strip for each camera of a window, moments in time."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

import torch

from headrace.errors import ConfigError
from headrace.training.sheet.cells import Cell, Mark, Strip
from headrace.training.sheet.contact_sheet import ContactSheet
from headrace.training.sheet.levels import fitted, levels_of, size_in
from headrace.training.sheet.look import Look, fitting, most_strips, room_for, spread
from headrace.training.sheet.pictures import pictures_of
from headrace.training.sheet.told import Told

WINDOWS: Final = 2
"""Samples that are shown, unless others are asked for."""


def sheet_of_windows(batch: Mapping[str, Any], told: Told, look: Look) -> ContactSheet:
    """Return the sheet of a batch of windows.

    Raises:
        ConfigError: what is asked for is not there, or `frames` are no pictures (any more).
    """
    pictures = _pictures(batch.get("frames"), batch["frame"].shape[1:])
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
                cells=tuple(_cell(batch, window, step, camera, next(drawn)) for step in steps),
            )
            for window, camera in rows
        ]
    )
    what = (
        f"{len(chosen)} of {windows} windows, {len(steps)} of {moments} moments of each, "
        f"{len(kept)} of {len(chosen) * cameras} rows of cameras"
    )
    return ContactSheet(title=(what, *filter(None, [levels.note])), strips=kept)


def _pictures(frames: Any, expected: tuple[int, ...]) -> torch.Tensor:
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


def _heading(told: Told, window: int, camera: int) -> str:
    name = "/".join(PurePath(told.videos[window]).parts[-2:]) if told.videos else f"window {window}"
    return f"{name}, {told.cameras[camera] if told.cameras else f'camera {camera}'}"


def _cell(batch: Mapping[str, Any], window: int, step: int, camera: int, picture: Any) -> Cell:
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
