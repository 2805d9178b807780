"""Everything that trains on video takes what decodes, in full or as the number of a GPU."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import headrace
from decode.backends import TORCHCODEC, needs_torchcodec
from decode.gpus import needs_gpu, needs_no_gpu
from forked import in_a_fork
from headrace.decode.clips import read_clip
from headrace.decode.decoding import Decoding
from headrace.decode.tolerance import Apart
from headrace.errors import BackendError, ConfigError
from headrace.extraction.frames import read_frames
from headrace.runtime import forks
from headrace.sampling.clips import RandomClips
from headrace.training.clip_loader import ClipLoader
from headrace.training.collate import Collate
from headrace.training.datasets import FrameDataset, VideoDataset
from headrace.training.loader import FrameLoader
from training.videos import SIZE

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

GPU = Decoding.on_gpu(0)
TESTS = Path(__file__).parents[1]


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


class OpensInItsWorker(Dataset):
    """Opens its videos where the first item is asked for, as many datasets do."""

    def __init__(self, videos, store):
        self.asked = {"size": SIZE, "decoding": GPU, "store": store}
        self.videos = videos

    def __len__(self):
        return 8

    def __getitem__(self, number):
        return FrameDataset(self.videos, **self.asked)[number]


def test_a_worker_that_was_forked_is_told_before_cuda_is_touched(videos, store, monkeypatch):
    """Also where all that decodes was made in the worker."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(forks, "_torch_has_cuda", lambda: True)
    batches = DataLoader(
        OpensInItsWorker(videos, store), num_workers=1, multiprocessing_context="fork"
    )
    with pytest.raises(BackendError, match=r"GPU 0 .* forked from one that uses CUDA, .*='spawn'"):
        next(iter(batches))


def test_batches_do_not_go_to_a_gpu_in_a_process_that_was_forked(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(forks, "_torch_has_cuda", lambda: True)
    pixels = np.zeros((2, 4, 6, 3), np.uint8)

    def child():
        for asked, words in (
            ({"device": "cuda:0"}, "batches were to go to cuda:0 in a process that was forked"),
            ({"pin_memory": True}, "to page-locked memory in a process that was forked"),
        ):
            with pytest.raises(BackendError, match=words):
                Collate(**asked).pictures(pixels)
        return Collate().pictures(pixels).shape == (2, 3, 4, 6)

    assert in_a_fork(child)


@needs_gpu
def test_forks_and_cuda_on_a_gpu(videos):
    """What the document reports happens below headrace, and headrace says so before it."""
    run = subprocess.run(
        [sys.executable, "-m", "training.fork_and_cuda", videos[0]],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(run.stdout)
    assert found["forked before CUDA was used"] == "equal"
    assert found["spawned"] == "equal"
    assert re.search(r"GPU 0 .* forked from one that uses CUDA", found["forked"])
    assert found["forked, by PyAV alone"] != "equal"


@needs_gpu
@pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)
def test_frames_from_the_gpu_are_those_from_the_cpu(videos, store, opener):
    with opener(videos, store=store) as there, opener(videos, store=store, gpu=0) as here:
        for expected, found in zip(there, here, strict=True):
            assert torch.equal(expected.frames, found.frames)


@needs_torchcodec
@pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)
def test_loaders_deliver_the_same_frames_by_torchcodec(videos, store, opener):
    with (
        opener(videos, store=store) as there,
        opener(videos, store=store, decoding=TORCHCODEC, workers=2) as here,
    ):
        for expected, found in zip(there, here, strict=True):
            assert torch.equal(expected.video, found.video)
            assert torch.equal(expected.index, found.index)
            assert is_close(found.frames, expected.frames)


@needs_torchcodec
def test_datasets_and_readers_give_the_same_frames_by_torchcodec(
    videos, store, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ways = (
        lambda how: VideoDataset(videos, 4, 1, size=SIZE, decoding=how, store=store)[3]["video"],
        lambda how: FrameDataset(videos, SIZE, decoding=how, store=store)[70]["frame"],
        lambda how: read_clip(videos[0], num_frames=4, stride=1, decoding=how),
        lambda how: headrace.open(videos[3], decoding=how, store=store)[[7, 2]],
        lambda how: np.concatenate(
            [batch.frames for batch in read_frames(videos[:1], size=SIZE, decoding=how)]
        ),
    )
    for read in ways:
        assert is_close(read(TORCHCODEC), read(Decoding()))


@needs_torchcodec
def test_workers_that_are_forked_decode_by_torchcodec_too(videos, store):
    with FrameDataset(videos, SIZE, decoding=TORCHCODEC, store=store) as dataset:
        here = dataset[30]["frame"]
        loader = DataLoader(dataset, sampler=[30], num_workers=1, multiprocessing_context="fork")
        [batch] = loader
    assert torch.equal(batch["frame"][0], here)


def test_a_backend_that_is_not_installed_is_refused_when_a_loader_is_made(
    videos, store, monkeypatch
):
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    for opener in OPENERS.values():
        with pytest.raises(BackendError, match=r"pip install 'headrace\[torchcodec\]'"):
            opener(videos, store=store, decoding=TORCHCODEC)
    with pytest.raises(BackendError, match=r"pip install 'headrace\[torchcodec\]'"):
        FrameDataset(videos, SIZE, decoding=TORCHCODEC, store=store)


def is_close(found, expected) -> bool:
    """Whether pictures resized by area are the same: all edges of colour, so 3 levels apart."""
    apart = Apart.between(np.asarray(found), np.asarray(expected))
    return apart is not None and apart.mean < 3
