"""Frames kept on a device equal those copied to arrays; in these tests, the device is the CPU."""

from contextlib import closing

import numpy as np
import pytest
import torch

from decode.gpus import needs_gpu
from headrace.decode.decoder_config import DecoderConfig
from headrace.errors import BackendError
from headrace.extraction.frame_reader import FrameReader
from headrace.models.device import is_out_of_memory
from headrace.testing.synth import KINDS, SynthClip, write_clip
from headrace.video.stream_index import StreamIndex

ON_CPU = DecoderConfig(keeps_on_device=True)
ON_GPU = DecoderConfig(device="cuda:0", keeps_on_device=True)


@pytest.fixture
def index(scanned):
    return scanned(SynthClip(num_frames=100, gop=10))


def both(indexes, decoding=ON_CPU, **options):
    """Return the batches of tensors, the batches of arrays, and both readers."""
    options = {"batch_size": 8, "workers": 3, **options}
    tensors = FrameReader(indexes, decoding=decoding, **options)
    arrays = FrameReader(indexes, **options)
    return list(tensors), list(arrays), (tensors, arrays)


def check(tensors, arrays, device="cpu"):
    for batch, expected in zip(tensors, arrays, strict=True):
        assert (batch.frames.dtype, batch.frames.device.type) == (torch.uint8, device)
        assert batch.frames.shape == expected.frames.shape
        for name in ("index", "pts", "is_concealed", "time_base", "video"):
            assert np.array_equal(getattr(batch, name), getattr(expected, name))
        difference = batch.frames.cpu().numpy().astype(int) - expected.frames
        assert np.abs(difference).max() <= 5


@pytest.mark.parametrize(
    "options",
    [{}, {"batch_size": 30}, {"batch_size": None}, {"stride": 7}, {"max_batches": 3}],
    ids=["across ranges", "large", "within ranges", "every 7th", "the first"],
)
def test_tensors_equal_arrays_with_equal_positions(index, options):
    tensors, arrays, readers = both([index], **options)
    check(tensors, arrays)
    assert readers[0].frames_planned == readers[1].frames_planned
    assert readers[0].counters.frames_delivered == readers[1].counters.frames_delivered


def test_each_video_keeps_its_size(tmp_path, index):
    tall = SynthClip(num_frames=30, size=(128, 96))
    rotated = KINDS["rotated_90"]
    others = [write_clip(tmp_path / name, clip) for name, clip in (("b", tall), ("c", rotated))]
    tensors, arrays, _ = both([index, *map(StreamIndex.scan, others)])
    check(tensors, arrays)
    assert {tuple(batch.frames.shape[1:3]) for batch in tensors} == {(96, 128), (128, 96)}


def test_places_hold_a_batch_without_its_pixels(index):
    with closing(iter(FrameReader([index], batch_size=4, decoding=ON_CPU))) as batches:
        batch = next(batches)
    places = batch.places
    assert (bool(batch.frames.any()), places.frames.any()) == (True, False)
    assert isinstance(places.frames, np.ndarray)
    assert (places.frames.shape, places.frames.strides) == ((4, 96, 128, 3), (0, 0, 0, 0))
    assert places.index.tolist() == [0, 1, 2, 3]
    assert places.decode_seconds == batch.decode_seconds


def test_running_out_of_device_memory_is_a_recognizable_error(index, monkeypatch):
    """A run can then start again with smaller batches."""

    def empty(shape, **_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore")

    monkeypatch.setattr(torch, "empty", empty)
    reader = FrameReader([index], batch_size=8, decoding=ON_CPU)
    message = r"PyTorch cannot allocate frames of \[8, 96, 128, 3\] on cpu"
    with pytest.raises(BackendError, match=message) as caught:
        list(reader)
    assert is_out_of_memory(caught.value.__cause__)
    assert "\n" not in str(caught.value)


@needs_gpu
def test_gpu_frames_stay_there_except_one_keyframe_per_decoder(index):
    tensors, arrays, readers = both([index], ON_GPU, workers=1)
    check(tensors, arrays, "cuda")
    assert 0 < readers[0].counters.brought_down_bytes < 3 * 96 * 128 * 3
