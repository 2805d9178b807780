"""A small set of different videos, all their frames by a plain decode, and the doors to them."""

import json
from contextlib import closing
from fractions import Fraction
from functools import cache, reduce
from hashlib import blake2b
from itertools import islice
from operator import getitem
from pathlib import Path

import numpy as np
import psutil
import torch
from torch.utils.data import default_collate, get_worker_info

import headrace
from decode.linear import linear_frames
from headrace import Bursts, DecodeJob, DeltaFrames, FrameFormat, StreamIndex, open_device_decoder
from headrace.sampling.clip_samplers import RandomClips, SegmentClips, UniformClips
from headrace.sampling.frame_samplers import SequentialFrames, ShuffledFrames, UniformFrames
from headrace.testing.synth import SynthClip, write_clip
from loaders.cameras.clips import SIZE

FRAME_BYTES = SIZE[0] * SIZE[1] * 3
KEPT, ON_GPU = (
    headrace.DecoderConfig(device=device, keeps_on_device=True) for device in ("cpu", "cuda:0")
)
CLIP = RandomClips(num_frames=4, stride=2)
DOORS = {
    "frames": (headrace.FrameLoader, {"batch_size": 10, "num_threads": 2}),
    "clips": (headrace.ClipLoader, {"batch_size": 2, "clips": CLIP, "num_threads": 2}),
    "cameras": (headrace.CameraLoader, {"group_num": 2, "num_threads": 2}),
    "windows": (headrace.CameraWindowLoader, {"batch_size": 4, "num_threads": 2}),
    "frame items": (headrace.FrameDataset, {}),
    "clip items": (headrace.VideoDataset, {"clip_len": 4, "stride": 3}),
    "camera items": (headrace.CameraStreamDataset, {"num_of_set": 2}),
}
"""Doors: name → class and default options."""
SEGMENTS = [
    # video, from, to, label, weight, group
    (0, 0.2, 0.9, "run", 1, "x"),
    (0, 0.5, 1.2, "jump", 2, "x"),
    (1, "", "", "run", 1, "y"),
    (2, 0.4, "", "sit", 4, ""),
    (0, 0.49, 0.51, "blink", 1, ""),
    (3, "", 0.5, "run", 0, ""),
]
BURSTS = Bursts(frames_per_burst=4, lanes=10)
CLIP_SAMPLERS = [
    RandomClips(num_frames=4, stride=2),
    RandomClips(num_frames=3, stride=4, temporal_jitter=3, each_once="starts"),
    RandomClips(num_frames=16, stride=2, boundary="repeat_last"),
    UniformClips(num_clips=3, num_frames=5),
    UniformClips(num_clips=2, num_frames=30, boundary="wrap"),
]
ROW_SAMPLERS = [
    SequentialFrames(),
    UniformFrames(over="seconds"),
    ShuffledFrames(over="videos"),
    Bursts(frames_per_burst=2, lanes=8),
    DeltaFrames(delta_seconds=(-0.1, 0, 0.04), sampling=ShuffledFrames()),
    RandomClips(num_frames=3, fps=10, boundary="pad", each_once="starts"),
    RandomClips(num_frames=5, stride=3, boundary="skip"),
    UniformClips(num_clips=2, num_frames=4, fps=12.5, boundary="pad"),
    SegmentClips(num_segments=4),
]
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
    """Expected frames: each video decoded linearly."""

    def __init__(self, videos: list[Path]) -> None:
        self.frames = [np.stack(linear_frames(path, FrameFormat(size=SIZE))) for path in videos]

    @property
    def places(self) -> list[tuple[int, int]]:
        """(video, index) of all frames."""
        return [(v, i) for v, frames in enumerate(self.frames) for i in range(len(frames))]

    def of(self, batch) -> torch.Tensor:
        """Return the expected frames of a batch or an item, by its `video` and `index`."""
        video, index = (np.asarray(batch[name]) for name in ("video", "index"))
        video = video[(..., *[None] * (index.ndim - video.ndim))]
        flat = [self.frames[v][i] for v, i in np.broadcast(video, index)]
        pixels = np.stack(flat).reshape(*index.shape, *flat[0].shape)
        return torch.from_numpy(pixels).movedim(-1, -3)


SHAPE = FrameFormat(size=SIZE)
LEVELS = 6
"""Levels of grey by which swscale's frames differ at most."""


@cache
def frames_of(path, shape=SHAPE) -> torch.Tensor:
    """Return uint8 [T, 3, H, W]: all frames of a video by a device decoder on the CPU."""
    index = StreamIndex.scan(path)
    with closing(open_device_decoder(index, shape, KEPT)) as decoder:
        job = DecodeJob(tuple(range(len(index))), goes_on=False)
        return torch.stack([frame for _, frame in decoder.run(job)]).movedim(-1, -3)


def pictures(batch, files):
    """Yield (file, frame, is flipped, picture) of all that a batch shows; frame -1 shows none.

    `files` are videos, or the layout of cameras.
    """
    frames = batch.frame if "clip" in batch else batch.index
    for place in np.ndindex(frames.shape):
        is_flipped = False
        if "clip" in batch:
            clip = files.clips[int(batch.clip[place[0]])]
            file = clip.file(files.cameras[place[-1]])
            is_flipped = bool(batch.image_matrix[place[0], place[-1], 0, 0] < 0)
        else:
            file = files[int(batch.video[place[0]])]
        yield file, int(frames[place]), is_flipped, reduce(getitem, place, batch.frames)


def check_pictures(batch, files, shape=SHAPE) -> set[bool]:
    """Compare each picture with the frame in its file; return which are flipped.

    Missing frames are black.
    """
    flips = set()
    for file, frame, is_flipped, picture in pictures(batch, files):
        if frame < 0:
            assert not picture.any()
            continue
        right = frames_of(file, shape)[frame]
        assert torch.equal(picture, right.flip(-1) if is_flipped else right)
        flips.add(is_flipped)
    return flips


def apart(found: torch.Tensor, expected: torch.Tensor) -> int:
    """Return the maximum difference of images in grey levels."""
    return int((found.cpu().int() - expected.cpu().int()).abs().max())


def check_near(kept, came_down):
    """Compare a batch with one of arrays: equal within a few grey levels."""
    for name, value in came_down.items():
        if name == "frames":
            assert apart(kept.frames, value) <= LEVELS
        elif isinstance(value, torch.Tensor):
            assert torch.equal(value.nan_to_num(-1), kept[name].nan_to_num(-1)), name
        else:
            assert value == kept[name], name


def open_videos(folder: Path) -> list[str]:
    """Return the files of `folder` that this process has open, one as often as it is.

    The system lists them one after the other: one that a thread closes meanwhile, and the next that
    it opens, may both be listed. So the shortest of some lists counts.
    """
    lists = ([Path(file.path) for file in psutil.Process().open_files()] for _ in range(3))
    return min(([str(path) for path in paths if path.parent == folder] for paths in lists), key=len)


def samples(batches, *names):
    """Yield each sample's entries of these names; tensors of at most one number as numbers."""
    for batch in [batches] if isinstance(batches, dict) else batches:
        columns = [batch[name] for name in names]
        lists = (c.tolist() if torch.is_tensor(c) and c.ndim < 3 else c for c in columns)
        yield from zip(*lists, strict=True)


def places(batch):
    """Return the position and the pixels of each sample."""
    name = "clip" if "clip" in batch else "video"
    pixels = [blake2b(frame.numpy().tobytes()).hexdigest() for frame in batch.frames]
    return [[*place, was] for place, was in zip(samples(batch, name, "index"), pixels, strict=True)]


def epochs(loader, count=2):
    return [batch for _ in range(count) for batch in loader]


def takes(sampler):
    """Return the door that takes a sampler, and the option that it is."""
    is_of_frames = sampler.traits.num_frames is None
    return ("frames", {"sampling": sampler}) if is_of_frames else ("clips", {"clips": sampler})


def resumed(begun, after, steps, count=1):
    """Return the batches of some epochs: the first steps by a loader, the rest by another one.

    That one goes on from the state of the first.
    """
    seen = list(islice((batch for _ in range(count) for batch in begun), steps))
    after.load_state_dict(json.loads(json.dumps(begun.state_dict())))
    return seen + epochs(after, count - after.epoch)


def contents(batches) -> list[tuple]:
    """Return all entries of batches; equal for equal batches, NaN included."""
    return [
        tuple(
            value.numpy().tobytes() if isinstance(value, torch.Tensor) else value
            for value in batch.values()
        )
        for batch in batches
    ]


def with_counters(items):
    """Collate in a worker of a DataLoader; return its decode counters, too."""
    return default_collate(items), get_worker_info().dataset.counters
