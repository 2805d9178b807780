"""A small camera layout, and all its frames decoded plainly."""

import shutil
from pathlib import Path

import numpy as np
import torch

from decode.linear import linear_frames
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.camera_layout import CameraLayout
from headrace.video.shape import FrameShape

SIZE = (32, 48)
CAMERAS = ("back", "front", "left")
LENGTHS = {"a": 20, "b": 13, "c": 29, "d": 8, "e": 17}


def write_layout(folder: Path, lengths=LENGTHS) -> CameraLayout:
    """Clips of three cameras that differ in codec and look; 87 moments."""
    for number, (clip, length) in enumerate(lengths.items()):
        (folder / clip).mkdir(parents=True)
        for place, camera in enumerate(CAMERAS):
            codec = ("h264", "hevc", "h264")[(number + place) % 3]
            synthetic = SynthClip(
                codec=codec,
                num_frames=length,
                size=(64, 96),
                gop=5 + place,
                b_frames=2 if place == 2 else 0,
            )
            write_clip(folder / clip / camera, synthetic)
    return layout_of(folder)


def copy_layout(folder: Path, to: Path) -> CameraLayout:
    """Copy a layout, to damage the copy."""
    shutil.copytree(folder, to)
    return layout_of(to)


def layout_of(folder: Path) -> CameraLayout:
    """Return the layout of a folder whose first camera of each clip is whole."""
    return CameraLayout.of_folders(
        [folder], lambda file: len(linear_frames(file, FrameShape(size=SIZE)))
    )


class PlainCameras:
    """What every frame must look like: each camera decoded from end to end."""

    def __init__(self, layout: CameraLayout, size=SIZE) -> None:
        self.frames = [
            [linear_frames(clip.file(camera), FrameShape(size=size)) for camera in layout.cameras]
            for clip in layout.clips
        ]

    def of(self, clip: int, camera: int, frame: int) -> np.ndarray:
        """Return one frame, uint8 [3, H, W]."""
        return np.moveaxis(self.frames[clip][camera][frame], -1, 0)


def cells(batches) -> list[tuple[int, int, int]]:
    """Return (slot, clip, index) of everything that batches show."""
    return [
        (slot, clip, index)
        for batch in batches
        for slot, clip, index in zip(
            batch.slot.tolist(), batch.clip.tolist(), batch.index.tolist(), strict=True
        )
        if clip >= 0
    ]


def contents(batches) -> list[tuple]:
    """Return what must be equal for batches to be equal."""
    return [
        tuple(
            value.numpy().tobytes() if isinstance(value, torch.Tensor) else value
            for value in batch.values()
        )
        for batch in batches
    ]
