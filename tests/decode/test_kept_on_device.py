"""Readers whose frames stay where they were decoded: those of `open_device_decoder`."""

from contextlib import closing

import numpy as np
import pytest
import torch

import headrace
from decode.gpus import needs_gpu, needs_no_gpu
from headrace.decode.decoding import Decoding
from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_device_decoder
from headrace.decode.protocol import DecodeJob
from headrace.errors import BackendError, ConfigError, DecodeError
from headrace.extraction.frames import FrameReader
from headrace.runtime import memory
from headrace.testing.damage import damage_packets
from headrace.testing.synth import KINDS, SynthClip, write_clip
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex

KEPT, ON_GPU = (Decoding(device=device, keeps_on_device=True) for device in ("cpu", "cuda:0"))
SIZE = (32, 48)
READERS = {
    "read_clip": lambda path, how: headrace.read_clip(path, 3, 4, 5, size=SIZE, decoding=how),
    "load_clip": lambda path, how: (
        headrace.load_clip(path, 3, 4, 5, size=SIZE, decoding=how).frames
    ),
    "open": lambda path, how: headrace.open(path, size=SIZE, decoding=how)[3:20:5],
    "read_frames": lambda path, how: torch.cat(
        [
            torch.as_tensor(batch.frames)
            for batch in headrace.read_frames([path], size=SIZE, decoding=how)
        ]
    )[3:20:5],
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    clip = SynthClip(num_frames=40, size=(64, 96), gop=8, b_frames=2)
    return write_clip(tmp_path_factory.mktemp("video") / "clip", clip)


def frames_of(path, shape=None):
    index = StreamIndex.scan(path)
    with closing(open_device_decoder(index, shape, KEPT)) as decoder:
        job = DecodeJob(tuple(range(len(index))), goes_on=False)
        return torch.stack([frame for _, frame in decoder.run(job)])


@pytest.fixture(scope="module")
def there(path):
    return frames_of(path, FrameShape(size=SIZE))


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_frames_are_those_that_the_device_decoder_leaves_there(path, there, read):
    found = read(path, KEPT)
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found, there[3:20:5])


def test_a_reader_gives_tensors_however_it_is_asked(path, there):
    with headrace.open(path, size=SIZE, decoding=KEPT) as video:
        assert torch.equal(video[5], there[5])
        assert torch.equal(video[-1], there[-1])
        assert torch.equal(video[[7, 3, 7]], there[[7, 3, 7]])
        assert torch.equal(torch.stack([*video]), there)
        none = video[[]]
        assert isinstance(none, torch.Tensor)
        assert (none.shape, none.dtype) == ((0, *SIZE, 3), torch.uint8)
        clip = video.at([0.5, 0.1])
        assert torch.equal(torch.as_tensor(clip.frames), there[clip.index])
        assert clip.pts_seconds.tolist() == sorted(clip.pts_seconds.tolist(), reverse=True)


def test_a_clip_of_tensors_is_a_batch(path, there):
    clip = headrace.load_clip(path, 0, 4, 1, size=SIZE, decoding=KEPT)
    batch = headrace.Batch.of_clip(clip)
    assert torch.equal(batch.frames[0], there[:4].movedim(-1, -3))
    assert batch.frames.data_ptr() == torch.as_tensor(clip.frames).data_ptr()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("batch_size", [None, 7])
def test_all_frames_are_read_in_batches(path, there, workers, batch_size, monkeypatch):
    """No array is held beside them."""
    monkeypatch.setattr(memory, "_memory", lambda size: pytest.fail("memory for arrays"))
    options = {"size": SIZE, "workers": workers, "batch_size": batch_size}
    batches = [*FrameReader([path], decoding=KEPT, **options)]
    assert {type(batch.frames) for batch in batches} == {torch.Tensor}
    assert torch.equal(torch.cat([torch.as_tensor(batch.frames) for batch in batches]), there)
    assert np.concatenate([batch.index for batch in batches]).tolist() == [*range(40)]


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("on_error", ["skip", "conceal", "raise"])
def test_damaged_frames_are_what_they_are_among_arrays(path, tmp_path, on_error, batch_size):
    bad = damage_packets(path, tmp_path / "bad.mp4", ordinals=[20, 21])
    told, pictures = [], []
    for decoding in (KEPT, Decoding()):
        reader = FrameReader(
            [bad], size=SIZE, batch_size=batch_size, on_error=on_error, decoding=decoding
        )
        batches, error = [], None
        try:
            batches.extend(reader)
        except DecodeError as caught:
            error = str(caught)
        frames = torch.cat([torch.as_tensor(batch.frames) for batch in batches])
        index = np.concatenate([batch.index for batch in batches]).tolist()
        concealed = np.concatenate([batch.is_concealed for batch in batches]).tolist()
        told.append((index, concealed, reader.losses, error))
        pictures.append(frames.int())
    assert told[0] == told[1]
    assert (pictures[0] - pictures[1]).abs().max() <= 5


def test_damage_in_a_clip_is_named_or_concealed(path, tmp_path):
    bad = damage_packets(path, tmp_path / "bad.mp4", ordinals=[20, 21])
    with pytest.raises(DecodeError, match=r"bad\.mp4"):
        headrace.read_clip(bad, 16, 8, 1, decoding=KEPT)
    clip = headrace.load_clip(bad, 16, 8, 1, on_error="conceal", decoding=KEPT)
    assert isinstance(clip.frames, torch.Tensor)
    assert clip.is_concealed.any()


def test_what_only_the_cpu_makes_is_refused_at_once(path, tmp_path):
    with pytest.raises(BackendError, match=r"as uint16; there .* leave keeps_on_device out"):
        headrace.open(path, dtype="uint16", decoding=KEPT)
    other = write_clip(tmp_path / "other", KINDS["odd_size_444"])
    for read in READERS.values():
        with pytest.raises(BackendError, match=r"stored as yuv444p; .* leave keeps_on_device out"):
            read(other, KEPT)


def test_the_memory_budget_holds_for_them_too(path):
    with (
        headrace.open(path, size=SIZE, memory_budget=4000, decoding=KEPT) as video,
        pytest.raises(ConfigError, match="memory budget"),
    ):
        video[0]


@needs_no_gpu
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_without_a_gpu_that_is_said_and_nothing_comes_from_the_cpu(path, read):
    with pytest.raises(BackendError, match=r"GPU 0 .*CUDA cannot start|no memory .* on cuda:0"):
        read(path, ON_GPU)


@needs_gpu
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_frames_of_the_gpu_that_stay_are_those_made_on_the_cpu(path, read):
    found = read(path, ON_GPU)
    assert str(found.device) == "cuda:0"
    assert (found.cpu().int() - read(path, KEPT).int()).abs().max() <= 1


@needs_gpu
def test_all_frames_of_the_gpu_that_stay_are_read_in_batches_of_one_size(path, there):
    store = IndexStore()
    reader = FrameReader([path], size=SIZE, batch_size=7, decoding=ON_GPU, store=store)
    frames = torch.cat([torch.as_tensor(batch.frames) for batch in reader])
    assert (frames.cpu().int() - there.int()).abs().max() <= 1
