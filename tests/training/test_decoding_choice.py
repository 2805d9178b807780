"""Everything that trains on video takes what decodes, in full or as the number of a GPU."""

import pytest
import torch

from decode.gpus import needs_gpu, needs_no_gpu
from headrace.decode.clips import read_clip
from headrace.decode.decoding import Decoding
from headrace.errors import BackendError, ConfigError
from headrace.extraction.frames import read_frames
from headrace.sampling.clips import RandomClips
from headrace.training.clip_loader import ClipLoader
from headrace.training.datasets import FrameDataset, VideoDataset
from headrace.training.loader import FrameLoader
from training.videos import SIZE

GPU = Decoding.on_gpu(0)


OPENERS = {
    "FrameLoader": lambda videos, **how: FrameLoader(videos, batch_size=8, size=SIZE, **how),
    "ClipLoader": lambda videos, **how: ClipLoader(
        videos, clips=RandomClips(num_frames=4, stride=1), batch_size=2, size=SIZE, **how
    ),
}


@pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)
def test_a_gpu_that_is_not_here_is_refused_when_a_loader_is_made(videos, store, opener):
    for asked in ({"gpu": 99}, {"decoding": Decoding.on_gpu(99)}):
        with pytest.raises(BackendError, match=r"decoding on GPU 99 .* leave gpu out"):
            opener(videos, store=store, **asked)


@pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)
def test_what_decodes_is_said_once(videos, store, opener):
    with pytest.raises(ConfigError, match="give decoding or gpu, got both"):
        opener(videos, store=store, decoding=Decoding(), gpu=99)


@needs_no_gpu
@pytest.mark.parametrize("on_error", ["raise", "skip", "conceal"])
def test_a_gpu_that_does_not_start_is_no_bad_media(videos, store, monkeypatch, on_error):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for opener in OPENERS.values():
        with (
            opener(videos, store=store, gpu=0, on_error=on_error) as loader,
            pytest.raises(BackendError, match="CUDA cannot start there"),
        ):
            next(iter(loader))


@needs_no_gpu
def test_datasets_and_readers_decode_where_they_are_told(videos, store, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    ways = (
        lambda: VideoDataset(videos, 4, 1, size=SIZE, decoding=GPU, store=store)[0],
        lambda: FrameDataset(videos, SIZE, decoding=GPU, store=store)[0],
        lambda: read_clip(videos[0], num_frames=4, stride=1, decoding=GPU),
        lambda: list(read_frames(videos[:1], decoding=GPU)),
    )
    for read in ways:
        with pytest.raises(BackendError, match="CUDA cannot start there"):
            read()


@needs_gpu
@pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)
def test_frames_from_the_gpu_are_those_from_the_cpu(videos, store, opener):
    with opener(videos, store=store) as there, opener(videos, store=store, gpu=0) as here:
        for expected, found in zip(there, here, strict=True):
            assert torch.equal(expected.frames, found.frames)
