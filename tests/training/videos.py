"""A small set of unlike videos, all their frames decoded plainly, and the doors to them."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import psutil
import torch
from torch.utils.data import default_collate, get_worker_info

import headrace
from headrace.decode.index_store import IndexStore
from headrace.extraction.frames import FrameReader
from headrace.sampling.clips import RandomClips
from headrace.testing.synth import SynthClip, write_clip
from training.cameras.clips import SIZE

FRAME_BYTES = SIZE[0] * SIZE[1] * 3
CLIP = RandomClips(num_frames=4, stride=2)
DOORS = {
    "frames": (headrace.FrameLoader, {"batch_size": 10, "workers": 2}),
    "clips": (headrace.ClipLoader, {"batch_size": 2, "clips": CLIP, "workers": 2}),
    "cameras": (headrace.CameraLoader, {"group_num": 2, "workers": 2}),
    "windows": (headrace.CameraWindowLoader, {"batch_size": 4, "workers": 2}),
    "frame items": (headrace.FrameDataset, {}),
    "clip items": (headrace.VideoDataset, {"clip_len": 4, "stride": 3}),
    "camera items": (headrace.CameraStreamDataset, {"num_of_set": 2}),
}
"""What opens files for training, and what is asked of it unless a test says something else."""
OF_CAMERAS = ("cameras", "windows", "camera items")
CLIPS = [
    SynthClip(num_frames=40, size=(64, 96), gop=7, b_frames=2),
    SynthClip(num_frames=25, size=(48, 64), gop=25, frame_rate=Fraction(30)),
    SynthClip(codec="mpeg4", num_frames=30, size=(64, 64), gop=10),
    SynthClip(codec="hevc", num_frames=18, size=(64, 96), gop=6),
]


def write_videos(folder: Path) -> list[Path]:
    """Mixed sizes, rates, codecs and GOPs: 113 frames."""
    return [write_clip(folder / f"video-{number}", clip) for number, clip in enumerate(CLIPS)]


class PlainFrames:
    """What every frame must look like: each video decoded from end to end."""

    def __init__(self, videos: list[Path], store: IndexStore, size: tuple[int, int] = SIZE) -> None:
        self.frames: list[np.ndarray] = [np.empty((0, *size, 3), np.uint8) for _ in videos]
        for batch in FrameReader(videos, size=size, workers=1, store=store):
            self.frames[batch.video] = np.concatenate([self.frames[batch.video], batch.frames])

    @property
    def places(self) -> list[tuple[int, int]]:
        """(video, index) of all frames."""
        return [(v, i) for v, frames in enumerate(self.frames) for i in range(len(frames))]

    def of(self, batch) -> torch.Tensor:
        """Return the frames that a batch claims to hold."""
        video = batch.video.view(-1, *[1] * (batch.index.ndim - 1)).expand_as(batch.index)
        flat = [
            self.frames[v][i]
            for v, i in zip(video.flatten().tolist(), batch.index.flatten().tolist(), strict=True)
        ]
        pixels = np.stack(flat).reshape(*batch.index.shape, *flat[0].shape)
        return torch.from_numpy(pixels).movedim(-1, -3)


def open_videos(folder: Path) -> list[str]:
    """Return the files of `folder` that this process has open, one as often as it is.

    The system lists them one after the other: one that a thread closes meanwhile, and the next that
    it opens, may both be listed. So the shortest of some lists counts.
    """
    return min((_listed(folder) for _ in range(3)), key=len)


def _listed(folder: Path) -> list[str]:
    return [file.path for file in psutil.Process().open_files() if Path(file.path).parent == folder]


def samples(batches, *names):
    """Yield what each sample of batches has by these names; tensors of one or no number as such."""
    for batch in [batches] if isinstance(batches, dict) else batches:
        columns = [batch[name] for name in names]
        lists = (c.tolist() if torch.is_tensor(c) and c.ndim < 3 else c for c in columns)
        yield from zip(*lists, strict=True)


def epochs(loader, count=2):
    return [batch for _ in range(count) for batch in loader]


def contents(batches) -> list[tuple]:
    """Return all that batches hold; equal for batches that are equal, NaN included."""
    return [
        tuple(
            value.numpy().tobytes() if isinstance(value, torch.Tensor) else value
            for value in batch.values()
        )
        for batch in batches
    ]


def with_counters(items):
    """Collate in a worker of a DataLoader; return what decoding cost it so far, too."""
    return default_collate(items), get_worker_info().dataset.counters
