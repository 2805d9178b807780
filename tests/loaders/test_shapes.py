"""Every door resizes and converts frames, also of 16 bits, like the reader of one video."""

from dataclasses import replace
from fractions import Fraction

import av
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchvision.transforms import v2

import headrace
from headrace import FrameFormat, SequentialFrames
from headrace.testing.synth import KINDS, write_clip
from loaders.videos import samples

pytestmark = pytest.mark.usefixtures("own_cache")

FITTED = {"size": (32, 32), "fit": "cover", "interpolation": "bilinear"}
DEEP = {"size": (36, 52), "dtype": "uint16"}
DEEP_KINDS = {"yuv420p10le": "libx265", "yuv422p12le": "libx265", "gray16le": "ffv1"}
"""Pixel format → codec; eight bits come last."""
ONE_BY_ONE = {"sampling": SequentialFrames(), "prefetch_next_epoch": False}


def write_deep(path, codec, pixel_format, frames=12):
    """Write a moving ramp with more levels than 8 bits."""
    height, width = 72, 104
    with av.open(str(path), "w") as file:
        stream = file.add_stream(codec, rate=Fraction(10))
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format
        stream.options = {"x265-params": "log-level=error:keyint=4", "g": "4"}
        stream.thread_count = 1
        ramp = np.arange(height * width, dtype=np.uint32).reshape(height, width) * 8
        for number in range(frames):
            grey = ((ramp + number * 999) % 65536).astype(np.uint16)
            rgb = np.ascontiguousarray(np.stack([grey, grey[::-1], grey], -1))
            file.mux(stream.encode(av.VideoFrame.from_ndarray(rgb, "rgb48le")))
        file.mux(stream.encode())
    return path


@pytest.fixture(scope="module")
def sizes(tmp_path_factory):
    """48 frames each of 96x128 and 128x96, as the cameras a and b of one clip."""
    folder = tmp_path_factory.mktemp("sizes") / "clip"
    folder.mkdir()
    return [
        write_clip(folder / name, replace(KINDS["h264"], size=size))
        for name, size in (("a", (96, 128)), ("b", (128, 96)))
    ]


@pytest.fixture(scope="module")
def deep_videos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deep")
    kinds = {**DEEP_KINDS, "yuv420p": "libx264"}
    return [write_deep(folder / f"{name}.mkv", codec, name) for name, codec in kinds.items()]


def read(videos, store, shape):
    """Return all frames of videos by the reader, [T, 3, H, W] each."""
    found = []
    for path in videos:
        with headrace.open(path, index_store=store, **shape) as reader:
            found.append(torch.from_numpy(reader[:]).movedim(-1, 1))
    return found


@pytest.fixture(scope="module")
def deep(deep_videos, store):
    return read(deep_videos, store, DEEP)


@pytest.fixture(params=["fitted", "deep"])
def asked(request, sizes, deep_videos, deep, store):
    """Videos, their shape, and their frames by the reader."""
    if request.param == "deep":
        return deep_videos, DEEP, deep
    return sizes, FITTED, read(sizes, store, FITTED)


def check(batches, expected):
    for frames, video, index in samples(batches, "frames", "video", "index"):
        right = expected[video].numpy()[index]  # old torch takes no uint16 apart
        assert frames.dtype == expected[video].dtype
        assert np.array_equal(frames.numpy(), right)


def test_loaders_and_datasets_yield_the_frames_of_the_reader(loader, asked):
    files, shape, expected = asked
    batches = list(loader(files=files, batch_size=7, **ONE_BY_ONE, **shape))
    assert sum(map(len, batches)) == sum(map(len, expected))
    check(batches, expected)
    if shape is FITTED:
        known = [[96, 128], [128, 96]]
        assert all(size == known[v] for v, size in samples(batches, "video", "original_size"))
    batches = list(loader("clips", files, **shape))
    check(batches, expected)
    assert batches[0].original_size.shape == (2, 2)
    frames = loader("frame items", files, **shape)
    for item in frames.__getitems__([47, 0, 13, 30, 13]):
        assert torch.equal(item["frames"], expected[item["video"]][item["index"]])
    batch = next(iter(DataLoader(frames, batch_size=4, num_workers=0)))
    assert torch.equal(batch["frames"], expected[0][:4])
    clips = loader("clip items", files, clip_len=3, stride=2, start=1, **shape)
    assert torch.equal(clips[1]["frames"], expected[1][1:6:2])


def test_frames_that_wait_in_yuv_are_fitted_too(loader, sizes):
    options = {"size": (48, 48), "fit": "cover", **ONE_BY_ONE}
    loaders = [loader(files=sizes, hold=hold, **options) for hold in ("rgb", "yuv420")]
    rgb, yuv = (next(iter(each)).frames.int() for each in loaders)
    assert (rgb - yuv).abs().float().mean() < 6


def test_readers_of_frames_and_cameras_fit_them(cameras, sizes, store):
    expected = read(sizes, store, FITTED)
    found = [batch.frames for batch in headrace.read_frames(sizes, workers=1, **FITTED)]
    assert np.array_equal(np.concatenate(found), torch.cat(expected).movedim(1, -1).numpy())
    layout = headrace.CameraLayout.of_folders([sizes[0].parents[1]], lambda file: 48)
    batch = next(iter(cameras(layout, group_num=1, **FITTED)))
    for camera in (0, 1):
        assert torch.equal(batch.frames[0, camera], expected[camera][0])


def test_memory_is_used_again_for_frames_of_two_bytes(loader, deep_videos, deep):
    each = loader(files=deep_videos, batch_size=5, memory_budget="1MiB", num_threads=1, **DEEP)
    for _ in range(3):
        for batch in each:  # none is kept, so that memory is used again
            check(batch, deep)
    assert each.statistics.most_held_bytes % (2 * 3 * 36 * 52) == 0


def test_more_levels_come_than_eight_bits_have_and_of_those_the_same_picture(
    deep_videos, store, deep
):
    assert all(len(np.unique(frames.numpy())) > 600 for frames in deep[:3])
    [plain] = read(deep_videos[3:], store, {"size": (36, 52)})
    assert (deep[3].double() / 257 - plain).abs().max() < 4


def test_a_frame_of_two_bytes_a_number_counts_twice_in_the_budget(loader):
    options = {"batch_size": 2, "size": (256, 256), "memory_budget": "8MiB", "num_threads": 1}
    wide, narrow = (loader(dtype=dtype, **options) for dtype in ("uint8", "uint16"))
    assert narrow.lookahead < wide.lookahead
    assert FrameFormat(dtype="uint16").frame_bytes((4, 6)) == 144


def test_transforms_that_scale_by_the_type_take_it(loader, deep_videos, deep):
    scaled = v2.Compose([v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True)])
    batch = next(iter(loader(files=deep_videos, transform=scaled, **ONE_BY_ONE, **DEEP)))
    for frame, index in zip(batch.frames, batch.index, strict=True):
        expected = deep[0][index].float() / 65535
        assert any(torch.allclose(frame, each) for each in (expected, expected.flip(-1)))


def test_a_batch_of_sixteen_bits_prints_moves_and_pins_down_its_type(loader, deep_videos):
    options = {"files": deep_videos, "batch_size": 2, **DEEP}
    batch = next(iter(loader(batch_transform=lambda frames: frames.float(), **options)))
    assert batch.frames.dtype == torch.float32
    batch = next(iter(loader(**options)))
    assert "uint16 [2, 3, 36, 52]" in repr(batch)
    assert batch.to("cpu").frames.dtype == torch.uint16
    assert batch.sample(0)["frames"].dtype == torch.uint16


def test_options_that_exclude_each_other_are_refused(refused):
    refused("deep_colour")
