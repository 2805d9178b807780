"""16 bits where they are asked for: loaders and datasets give the numbers that the reader gives."""

from fractions import Fraction

import av
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchvision.transforms import v2

import headrace
from headrace import ClipLoader, FrameDataset, FrameLoader, RandomClips, VideoDataset
from headrace.errors import ConfigError
from headrace.sampling.frames import InOrder
from headrace.training.frame_buffers import FrameBuffers

SIZE = (36, 52)
DEEP = {
    "hevc-10": ("libx265", "yuv420p10le"),
    "hevc-12": ("libx265", "yuv422p12le"),
    "gray16": ("ffv1", "gray16le"),
    "plain-8": ("libx264", "yuv420p"),
}


def write_deep(path, codec, pixel_format, frames=12):
    """Write a ramp that moves, with more levels than 8 bits have."""
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
            frame = av.VideoFrame.from_ndarray(rgb, "rgb48le")
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return path


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deep")
    return [write_deep(folder / f"{name}.mkv", *how) for name, how in DEEP.items()]


@pytest.fixture
def options(store):
    return {"size": SIZE, "dtype": "uint16", "store": store}


@pytest.fixture(scope="module")
def deep(videos, store):
    """All frames of all videos by the reader, uint16 [12, 3, H, W] each."""
    found = []
    for path in videos:
        with headrace.open(path, size=SIZE, dtype="uint16", store=store) as reader:
            found.append(torch.from_numpy(reader[:]).movedim(-1, 1))
    return found


def test_a_frame_loader_gives_what_the_reader_gives(videos, options, deep):
    with FrameLoader(
        videos, sampling=InOrder(), batch_size=7, workers=2, persistent=False, **options
    ) as loader:
        batches = list(loader)
    assert sum(map(len, batches)) == 48
    for batch in batches:
        assert batch.frames.dtype == torch.uint16
        assert batch.frames.shape[1:] == (3, *SIZE)
        for k, (video, index) in enumerate(zip(batch.video, batch.index, strict=True)):
            assert torch.equal(batch.frames[k], deep[video][index])


def test_memory_is_used_again_for_frames_of_two_bytes(videos, options, deep):
    with FrameLoader(videos, batch_size=5, workers=1, memory_budget="1MiB", **options) as loader:
        for _ in range(3):
            for batch in loader:
                expected = [deep[v][i] for v, i in zip(batch.video, batch.index, strict=True)]
                assert all(map(torch.equal, batch.frames, expected))
        assert loader.statistics.most_held_bytes % (2 * 3 * SIZE[0] * SIZE[1]) == 0


def test_a_clip_loader_gives_what_the_reader_gives(videos, options, deep):
    clips = RandomClips(num_frames=4)
    with ClipLoader(videos, clips=clips, batch_size=3, workers=1, **options) as loader:
        for batch in loader:
            for frames, video, index in zip(batch.frames, batch.video, batch.index, strict=True):
                expected = deep[video].numpy()[index.numpy()]  # old torch takes no uint16 apart
                assert np.array_equal(frames.numpy(), expected)


def test_datasets_give_what_the_reader_gives(videos, options, deep):
    with FrameDataset(videos, **options) as frames:
        for item in frames.__getitems__([47, 0, 13, 30, 13]):
            assert torch.equal(item["frame"], deep[item["video"]][item["index"]])
        batch = next(iter(DataLoader(frames, batch_size=4, num_workers=0)))
        assert torch.equal(batch["frame"], deep[0][:4])
    with VideoDataset(videos, clip_len=3, stride=2, start=1, **options) as clips:
        assert torch.equal(clips[1]["frames"], deep[1][1:6:2])


def test_more_levels_come_than_eight_bits_have(deep):
    assert all(len(np.unique(frames.numpy())) > 600 for frames in deep[:3])


def test_eight_bits_asked_for_as_sixteen_are_the_same_picture(videos, store, deep):
    with headrace.open(videos[3], size=SIZE, store=store) as reader:
        plain = torch.from_numpy(reader[:]).movedim(-1, 1)
    assert (deep[3].double() / 257 - plain).abs().max() < 4


def test_a_frame_of_two_bytes_a_number_counts_twice_in_the_budget(videos, store):
    def lookahead(dtype):
        with FrameLoader(
            videos, batch_size=2, size=(256, 256), workers=1, memory_budget="8MiB", dtype=dtype,
            store=store,
        ) as loader:  # fmt: skip
            return loader.lookahead

    assert lookahead("uint16") < lookahead("uint8")
    with pytest.raises(ConfigError, match=r"of 2 frames of 393216 bytes"):
        FrameLoader(
            videos, batch_size=2, size=(256, 256), memory_budget="2MiB", dtype="uint16", store=store
        )
    assert FrameBuffers((4, 6, 3), "uint16").frame_bytes == 144


def test_transforms_that_scale_by_the_type_take_it(videos, options, deep):
    scaled = v2.Compose([v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True)])
    with FrameLoader(
        videos, sampling=InOrder(), batch_size=6, transform=scaled, persistent=False, **options
    ) as loader:
        batch = next(iter(loader))
    for k, index in enumerate(batch.index):
        expected = deep[0][index].float() / 65535
        assert any(torch.allclose(batch.frames[k], each) for each in (expected, expected.flip(-1)))


def test_a_batch_of_sixteen_bits_prints_moves_and_pins_down_its_type(videos, options):
    with FrameLoader(videos, batch_size=2, batch_transform=lambda f: f.float(), **options) as one:
        assert next(iter(one)).frames.dtype == torch.float32
    with FrameLoader(videos, batch_size=2, **options) as other:
        batch = next(iter(other))
        assert "uint16 [2, 3, 36, 52]" in repr(batch)
        assert batch.to("cpu").frames.dtype == torch.uint16
        assert batch.sample(0)["frames"].dtype == torch.uint16


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"hold": "yuv420"}, "hold='yuv420' keeps 8 bits, and dtype='uint16' was asked for"),
        ({"dtype": "float32"}, "dtype must be one of uint8, uint16, got 'float32'"),
        ({"dtype": np.uint16}, "dtype must be one of uint8, uint16"),
        ({"dtype": None}, "dtype must be one of uint8, uint16"),
        ({"interpolation": "bicubic"}, "uint16 is resized by area only"),
    ],
)
def test_what_does_not_go_together_is_refused(videos, options, asked, message):
    with pytest.raises(ConfigError, match=message):
        FrameLoader(videos, **{**options, **asked})
    if "hold" not in asked:
        with pytest.raises(ConfigError, match=message):
            FrameDataset(videos, **{**options, **asked})
