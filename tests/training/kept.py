"""Loaders that leave frames where they were decoded, and what their pictures must be."""

from contextlib import closing
from functools import cache, reduce
from operator import getitem

import numpy as np
import torch

from headrace import CameraLoader, CameraWindowLoader
from headrace.decode.decoding import Decoding
from headrace.decode.open import open_device_decoder
from headrace.decode.protocol import DecodeJob
from headrace.sampling.clips import RandomClips, UniformClips
from headrace.training.clip_loader import ClipLoader
from headrace.training.loader import FrameLoader
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex
from training.cameras.clips import (
    VIEW,
    WINDOW,
)
from training.videos import SIZE

KEPT, ON_GPU = (Decoding(device=device, keeps_on_device=True) for device in ("cpu", "cuda:0"))
LEVELS = 6
"""Of grey, that swscale's pictures differ by at most."""
CLIPS = [RandomClips(num_frames=9, stride=2), UniformClips(num_frames=6, stride=3, num_clips=2)]
DOORS = {
    "frames": (FrameLoader, {"batch_size": 9}),
    "clips": (ClipLoader, {"batch_size": 2, "clips": CLIPS[0]}),
    "cameras": (CameraLoader, {"group_num": 4}),
    "windows": (CameraWindowLoader, {"batch_size": 4, **WINDOW}),
}
"""The loaders, and what is asked of each but where it decodes."""
FITTING = VIEW.fitting((64, 96))
SHAPE, VIEWED = FrameShape(size=SIZE), FrameShape(size=FITTING.size, fit=FITTING)


@cache
def frames_of(path, shape=SHAPE) -> torch.Tensor:
    """Return uint8 [T, 3, H, W]: all frames of a video, as its decoder leaves them on the CPU."""
    index = StreamIndex.scan(path)
    with closing(open_device_decoder(index, shape, KEPT)) as decoder:
        job = DecodeJob(tuple(range(len(index))), goes_on=False)
        return torch.stack([frame for _, frame in decoder.run(job)]).movedim(-1, -3)


def pictures(batch, files):
    """Yield (file, frame, picture) of all that a batch shows; frame is -1 where it shows none.

    `files` are videos, or the layout of cameras.
    """
    frames = batch.frame if "clip" in batch else batch.index
    for place in np.ndindex(frames.shape):
        if "clip" in batch:
            clip = files.clips[int(batch.clip[place[0]])]
            file = clip.file(files.cameras[place[-1]])
        else:
            file = files[int(batch.video[place[0]])]
        yield file, int(frames[place]), reduce(getitem, place, batch.frames)


def check_pictures(batch, files, shape=SHAPE):
    """Hold each picture against the frame that its file has; what is not there is black."""
    for file, frame, picture in pictures(batch, files):
        if frame < 0:
            assert not picture.any()
        else:
            assert torch.equal(picture, frames_of(file, shape)[frame])


def apart(found: torch.Tensor, expected: torch.Tensor) -> int:
    """Return by how many grey levels pictures differ at most."""
    return int((found.cpu().int() - expected.cpu().int()).abs().max())


def check_near(kept, came_down):
    """Hold a batch against one of arrays: equal in all but a few grey levels of its pictures."""
    for name, value in came_down.items():
        if name == "frames":
            assert apart(kept.frames, value) <= LEVELS
        elif isinstance(value, torch.Tensor):
            assert torch.equal(value.nan_to_num(-1), kept[name].nan_to_num(-1)), name
        else:
            assert value == kept[name], name
