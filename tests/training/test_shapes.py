"""Every loader makes frames into what was asked for, as the reader of one video does."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import headrace
from headrace.errors import ConfigError
from headrace.sampling.frames import InOrder
from headrace.testing.synth import KINDS, write_clip

SHAPE = {"size": (32, 32), "fit": "cover", "interpolation": "bilinear"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def videos(tmp_path):
    """Of 96x128 and of 128x96, 48 frames each, as the cameras a and b of one clip."""
    (tmp_path / "clip").mkdir()
    return [
        write_clip(tmp_path / "clip" / name, replace(KINDS["h264"], size=size))
        for name, size in (("a", (96, 128)), ("b", (128, 96)))
    ]


@pytest.fixture
def expected(videos):
    """Both videos, [48, 3, 32, 32] each."""
    found = []
    for path in videos:
        with headrace.open(path, **SHAPE) as reader:
            found.append(torch.from_numpy(reader[:]).movedim(-1, 1))
    return found


def test_a_frame_loader_fits_frames_and_tells_their_original_size(videos, expected):
    with headrace.FrameLoader(
        videos, batch_size=8, sampling=InOrder(), persistent=False, workers=1, **SHAPE
    ) as loader:
        for batch in loader:
            for k, (video, index) in enumerate(zip(batch.video, batch.index, strict=True)):
                assert torch.equal(batch.frames[k], expected[video][index])
                assert batch.original_size[k].tolist() == [[96, 128], [128, 96]][video]


def test_a_clip_loader_has_one_original_size_for_each_clip(videos, expected):
    clips = headrace.RandomClips(num_frames=4)
    with headrace.ClipLoader(videos, clips=clips, batch_size=2, workers=1, **SHAPE) as loader:
        batch = next(iter(loader))
    assert batch.original_size.shape == (2, 2)
    assert torch.equal(batch.frames[0], expected[batch.video[0]][batch.index[0]])


def test_frames_that_wait_in_yuv_are_fitted_too(videos):
    found = []
    for hold in ("rgb", "yuv420"):
        with headrace.FrameLoader(
            videos,
            batch_size=8,
            size=(48, 48),
            fit="cover",
            hold=hold,
            sampling=InOrder(),
            persistent=False,
        ) as loader:
            found.append(next(iter(loader)).frames.int())
    assert (found[0] - found[1]).abs().float().mean() < 6


def test_datasets_fit_frames(videos, expected):
    with headrace.FrameDataset(videos, **SHAPE) as frames:
        assert torch.equal(frames[50]["frame"], expected[1][2])
    with headrace.VideoDataset(videos, clip_len=3, stride=1, start=5, **SHAPE) as clips:
        assert torch.equal(clips[0]["frames"], expected[0][5:8])


def test_read_frames_fits_frames(videos, expected):
    found = [batch.frames for batch in headrace.read_frames(videos, workers=1, **SHAPE)]
    whole = torch.cat(expected).movedim(1, -1).numpy()
    assert np.array_equal(np.concatenate(found), whole)


def test_cameras_are_fitted(tmp_path, videos, expected):
    layout = headrace.CameraLayout.of_folders([tmp_path], lambda file: 48)
    with headrace.CameraLoader(layout, group_num=1, workers=1, **SHAPE) as loader:
        batch = next(iter(loader))
    assert torch.equal(batch.frames[0, 0], expected[0][0])
    assert torch.equal(batch.frames[0, 1], expected[1][0])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"fit": "fill"}, "fit must be one of stretch, cover, contain, got 'fill'"),
        ({"fit": "cover", "size": None}, "fit='cover' needs a size"),
        ({"interpolation": "nearest"}, "interpolation must be one of area, bilinear, bicubic"),
        ({"interpolation": "bicubic", "hold": "yuv420"}, "keep frames as RGB"),
    ],
)
def test_a_shape_that_cannot_be_made_is_refused(videos, asked, message):
    with pytest.raises(ConfigError, match=message):
        headrace.FrameLoader(videos, **asked)
