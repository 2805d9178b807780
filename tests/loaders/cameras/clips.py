"""A small camera layout, its frames decoded linearly, and options for loaders of it."""

from fractions import Fraction
from functools import reduce
from operator import getitem
from pathlib import Path

import numpy as np
from PIL import Image

from decode.linear import linear_frames
from headrace import CameraLayout, CameraView, ClipAugment, FrameFormat, Moments
from headrace.testing.synth import SynthClip, write_clip

SIZE = (32, 48)
CAMERAS = ("back", "front", "left")
LENGTHS = {"a": 20, "b": 13, "c": 29, "d": 8, "e": 17}
EVERY = {(clip, k) for clip, length in enumerate(LENGTHS.values()) for k in range(length)}
"""(clip, moment) of the layout."""

WINDOW = {"num_moments": 3, "stride": 2, "keys": Moments.every(3)}
"""Three moments, two apart, before every third one."""
KEYS = {(clip, key) for clip, key in EVERY if key % 3 == 0}
VIEW = CameraView(resize=0.5, crop=(20, 40), anchor="bottom")
CHANCE = ClipAugment(scale=(0.8, 1.3), slides=True, flip=0.5, rotate_degrees=(-9, 9), alike=False)
FLIPS = ClipAugment(flip=0.5)


def write_layout(folder: Path, lengths=LENGTHS) -> CameraLayout:
    """Clips of three cameras that differ in codec and look; 87 moments."""
    for number, (clip, length) in enumerate(lengths.items()):
        (folder / clip).mkdir(parents=True)
        for position, camera in enumerate(CAMERAS):
            codec = ("h264", "hevc", "h264")[(number + position) % 3]
            gops = {"gop": 5 + position, "b_frames": 2 * (position == 2)}
            synthetic = SynthClip(codec=codec, num_frames=length, size=(64, 96), **gops)
            write_clip(folder / clip / camera, synthetic)
    return layout_of(folder)


def replace_camera(path: Path, **options) -> None:
    """Write another video at the path of a camera, existing or not."""
    path.unlink(missing_ok=True)
    write_clip(path.with_suffix(""), SynthClip(**options))


def write_cameras(folder: Path, clips, num_frames: int) -> CameraLayout:
    """Write {clip: {camera: options of SynthClip}}; the first cameras have `num_frames`."""
    for clip, cameras in clips.items():
        (folder / clip).mkdir(parents=True, exist_ok=True)
        for camera, options in cameras.items():
            write_clip(folder / clip / camera, SynthClip(**{"size": (64, 96), **options}))
    return CameraLayout.of_folders([folder], lambda file: num_frames)


def write_pictures(folder: Path, clips, suffix=".png", rate=10) -> CameraLayout:
    """Write {clip: {camera: images}} as files in folders."""
    for clip, cameras in clips.items():
        for camera, images in cameras.items():
            (folder / clip / camera).mkdir(parents=True)
            for number, image in enumerate(images):
                Image.fromarray(image).save(folder / clip / camera / f"{number:05d}{suffix}")
    return CameraLayout.of_folders([folder], len, picture_rate=rate)


def at_rate(rate: int, **options):
    """Return the options of a camera with `rate` frames per second, one second long."""
    return {"num_frames": rate, "frame_rate": Fraction(rate), **options}


def layout_of(folder: Path) -> CameraLayout:
    """Return the layout of a folder; the first camera of each clip must be undamaged."""
    return CameraLayout.of_folders(
        [folder], lambda file: len(linear_frames(file, FrameFormat(size=SIZE)))
    )


class PlainCameras:
    """The expected frames: each camera decoded linearly."""

    def __init__(self, layout: CameraLayout, size=SIZE) -> None:
        self.frames = [
            [linear_frames(clip.file(camera), FrameFormat(size=size)) for camera in layout.cameras]
            for clip in layout.clips
        ]

    def of(self, clip: int, camera: int, frame: int) -> np.ndarray:
        """Return one frame, uint8 [3, H, W]."""
        return np.moveaxis(self.frames[clip][camera][frame], -1, 0)

    def check(self, batch) -> None:
        """Compare every frame of a batch of slots or windows with these; missing ones are black."""
        for position in np.ndindex(tuple(batch["frame"].shape)):
            frame, clip = int(batch["frame"][position]), int(batch["clip"][position[0]])
            frame_pixels = reduce(getitem, position, batch["frames"]).numpy()
            right = self.of(clip, position[-1], frame) if frame >= 0 else 0
            assert np.array_equal(frame_pixels, np.broadcast_to(right, frame_pixels.shape))


def cells(batches) -> list[tuple[int, int, int]]:
    """Return (slot, clip, index) of every delivered moment."""
    columns = ((b.slot.tolist(), b.clip.tolist(), b.index.tolist()) for b in batches)
    return [cell for each in columns for cell in zip(*each, strict=True) if cell[1] >= 0]


def facts(clip, moment):
    return {"of": (clip, moment.number), "frames": dict(moment.frames)}


WAYS = {
    "plain": {},
    "view": {"view": VIEW},
    "chance": {"view": VIEW, "augment": CHANCE},
    "flips": {"augment": FLIPS},
    "metadata": {"metadata": facts, "on_error": "mask"},
}


def keys(batches) -> list[tuple[int, int]]:
    """Return (clip, key moment) of each window; the key is the last moment."""
    columns = ((batch.clip.tolist(), batch.index[:, -1].tolist()) for batch in batches)
    return [window for each in columns for window in zip(*each, strict=True)]
