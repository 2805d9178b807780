"""Frames that stay on a device come as arrays do; here that device is the CPU."""

from contextlib import closing

import numpy as np
import pytest
import torch

from decode.gpus import needs_gpu
from headrace.decode.decoder_config import DecoderConfig
from headrace.errors import BackendError
from headrace.extraction.frame_reader import FrameReader
from headrace.models.gpu_memory import is_out_of_memory
from headrace.testing.synth import KINDS, SynthClip, write_clip
from headrace.video.stream_index import StreamIndex

ON_CPU = DecoderConfig(keeps_on_device=True)
ON_GPU = DecoderConfig(device="cuda:0", keeps_on_device=True)


@pytest.fixture
def index(scanned):
    return scanned(SynthClip(num_frames=100, gop=10))


def both(indexes, decoding=ON_CPU, **options):
    """Return the batches of tensors, and those of arrays."""
    options = {"batch_size": 8, "workers": 3, **options}
    kept = FrameReader(indexes, decoding=decoding, **options)
    arrays = FrameReader(indexes, **options)
    return list(kept), list(arrays), (kept, arrays)


def check(kept, arrays, device="cpu"):
    for tensors, expected in zip(kept, arrays, strict=True):
        assert (tensors.frames.dtype, tensors.frames.device.type) == (torch.uint8, device)
        assert tensors.frames.shape == expected.frames.shape
        for name in ("index", "pts", "is_concealed", "time_base", "video"):
            assert np.array_equal(getattr(tensors, name), getattr(expected, name))
        apart = tensors.frames.cpu().numpy().astype(int) - expected.frames
        assert np.abs(apart).max() <= 5


@pytest.mark.parametrize(
    "options",
    [{}, {"batch_size": 30}, {"batch_size": None}, {"stride": 7}, {"max_batches": 3}],
    ids=["over stretches", "large", "of one stretch", "every 7th", "the first"],
)
def test_they_are_the_frames_that_come_as_arrays_each_with_its_place(index, options):
    kept, arrays, readers = both([index], **options)
    check(kept, arrays)
    assert readers[0].frames_planned == readers[1].frames_planned
    assert readers[0].counters.frames_delivered == readers[1].counters.frames_delivered


def test_videos_follow_each_other_in_their_own_sizes(tmp_path, index):
    tall = SynthClip(num_frames=30, size=(128, 96))
    turned = KINDS["rotated_90"]
    others = [write_clip(tmp_path / name, clip) for name, clip in (("b", tall), ("c", turned))]
    kept, arrays, _ = both([index, *map(StreamIndex.scan, others)])
    check(kept, arrays)
    assert {tuple(batch.frames.shape[1:3]) for batch in kept} == {(96, 128), (128, 96)}


def test_places_are_what_is_left_of_a_batch_without_its_pixels(index):
    with closing(iter(FrameReader([index], batch_size=4, decoding=ON_CPU))) as batches:
        batch = next(batches)
    places = batch.places
    assert (bool(batch.frames.any()), places.frames.any()) == (True, False)
    assert isinstance(places.frames, np.ndarray)
    assert (places.frames.shape, places.frames.strides) == ((4, 96, 128, 3), (0, 0, 0, 0))
    assert places.index.tolist() == [0, 1, 2, 3]
    assert places.decode_seconds == batch.decode_seconds


def test_a_device_without_memory_is_an_error_that_says_so_and_what_it_is(index, monkeypatch):
    """So that a run can begin anew with smaller batches."""

    def empty(shape, **_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore")

    monkeypatch.setattr(torch, "empty", empty)
    reader = FrameReader([index], batch_size=8, decoding=ON_CPU)
    words = r"PyTorch cannot allocate frames of \[8, 96, 128, 3\] on cpu"
    with pytest.raises(BackendError, match=words) as caught:
        list(reader)
    assert is_out_of_memory(caught.value.__cause__)
    assert "\n" not in str(caught.value)


@needs_gpu
def test_frames_of_the_gpu_stay_there_and_one_keyframe_of_each_decoder_comes_down(index):
    kept, arrays, readers = both([index], ON_GPU, workers=1)
    check(kept, arrays, "cuda")
    assert 0 < readers[0].counters.brought_down_bytes < 3 * 96 * 128 * 3
