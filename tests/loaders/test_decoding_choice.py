"""Every loader and dataset takes a decoder, as a DecoderConfig or as the index of a GPU."""

import re
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import headrace
from decode.backends import TORCHCODEC, needs_torchcodec
from decode.doubles_of_gpu import GPU, Fails, stands_in
from decode.gpus import needs_gpu, needs_no_gpu
from decode.kit import run_apart
from forked import in_a_fork, raised_by_a_worker
from headrace import BackendError, ConfigError, DecoderConfig
from headrace.decode.capabilities import PixelDifference
from headrace.loaders.collate import Collate
from headrace.runtime import fork_safety as forks
from loaders.videos import KEPT, SIZE, contents
from tests.kit.old_pyav import needs_full_pyav

ON_GPU, AUTO = DecoderConfig.on_gpu(0), DecoderConfig(device="auto")
BY_DOOR = pytest.mark.parametrize("door", ["frames", "clips"])
BY_EACH_DOOR = pytest.mark.parametrize("door", ["frames", "clips", "cameras"])


def ways_of(videos, loader, how):
    """Return calls that decode frames through each door except loaders."""
    return (
        lambda: loader("clip items", decoding=how, stride=1)[3]["frames"],
        lambda: loader("frame items", decoding=how)[70]["frames"],
        lambda: headrace.read_clip(videos[0], num_frames=4, stride=1, decoding=how),
        lambda: np.concatenate(
            [b.frames for b in headrace.read_frames(videos[:1], size=SIZE, decoding=how)]
        ),
        lambda: headrace.open(videos[3], decoding=how)[[7, 2]],
    )


@needs_no_gpu
def test_a_gpu_that_does_not_start_is_no_bad_media(loader, videos, one_gpu):
    policies = [(door, each) for door in ("frames", "clips") for each in ("skip", "conceal")]
    policies += [(door, "raise") for door in ("frames", "clips", "cameras")] + [("cameras", "mask")]
    opened = (loader(door, gpu=0, on_error=on_error) for door, on_error in policies)
    reads = [partial(next, iter(each)) for each in opened]
    for read in (*reads, *ways_of(videos, loader, ON_GPU)[:4]):
        with pytest.raises(BackendError, match="CUDA cannot start"):
            read()


@needs_full_pyav
def test_a_forked_worker_gets_an_error_before_cuda_is_used(loader, one_gpu, monkeypatch):
    """Also where decoders are made in the worker, at its first request, as in many datasets."""

    class OpensInItsWorker(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, number):
            return loader("frame items", decoding=ON_GPU)[number]

    monkeypatch.setattr(forks, "_torch_has_cuda", lambda: True)
    batches = DataLoader(OpensInItsWorker(), num_workers=1, multiprocessing_context="fork")
    with raised_by_a_worker(BackendError, r"GPU 0 .* forked from one that uses CUDA, .*='spawn'"):
        next(iter(batches))


def test_batches_do_not_go_to_a_gpu_in_a_process_that_was_forked(one_gpu, monkeypatch):
    monkeypatch.setattr(forks, "_torch_has_cuda", lambda: True)
    pixels = np.zeros((2, 4, 6, 3), np.uint8)

    def child():
        for asked, words in (
            ({"device": "cuda:0"}, "batches were to go to cuda:0 in a process that was forked"),
            ({"pin_memory": True}, "to page-locked memory in a process that was forked"),
        ):
            with pytest.raises(BackendError, match=words):
                Collate(**asked).to_frames(pixels)
        return Collate().to_frames(pixels).shape == (2, 3, 4, 6)

    assert in_a_fork(child)


@needs_gpu
def test_forks_and_cuda_on_a_gpu(videos):
    """What the document reports happens below headrace, and headrace says so before it."""
    found = run_apart("loaders.fork_and_cuda", videos[0])
    assert found["forked before CUDA was used"] == "equal"
    assert found["spawned"] == "equal"
    assert re.search(r"GPU 0 .* forked from one that uses CUDA", found["forked"])
    assert found["forked, by PyAV alone"] != "equal"


@needs_gpu
@BY_EACH_DOOR
@pytest.mark.parametrize("asked", [{"gpu": 0}, {"decoding": AUTO}], ids=["gpu", "auto"])
def test_frames_from_the_gpu_are_those_from_the_cpu(loader, door, asked):
    here = loader(door, **asked)
    assert contents(here) == contents(loader(door))
    if "decoding" in asked:
        assert all(each.jobs for each in here.statistics.decoded_by.devices.values())


@needs_torchcodec
@BY_DOOR
def test_loaders_deliver_the_same_frames_by_torchcodec(loader, door):
    for expected, found in zip(loader(door), loader(door, decoding=TORCHCODEC), strict=True):
        assert torch.equal(expected.video, found.video)
        assert torch.equal(expected.index, found.index)
        assert is_close(found.frames, expected.frames)


@needs_torchcodec
@pytest.mark.usefixtures("own_cache")
def test_datasets_and_readers_give_the_same_frames_by_torchcodec(loader, videos):
    ways = (ways_of(videos, loader, each) for each in (TORCHCODEC, DecoderConfig()))
    for found, expected in zip(*ways, strict=True):
        assert is_close(found(), expected())


@needs_torchcodec
def test_workers_that_are_forked_decode_by_torchcodec_too(loader):
    dataset = loader("frame items", decoding=TORCHCODEC)
    here = dataset[30]["frames"]
    workers = {"num_workers": 1, "multiprocessing_context": "fork"}
    [batch] = DataLoader(dataset, sampler=[30], **workers)
    assert torch.equal(batch["frames"][0], here)


def is_close(found, expected) -> bool:
    """Compare frames resized by area: all edges of colour, so 3 levels of tolerance."""
    apart = PixelDifference.between(np.asarray(found), np.asarray(expected))
    return apart is not None and apart.mean < 3


AWAY = DecoderConfig.on_gpu(99)


def test_invalid_decoders_are_refused_when_a_loader_is_made(monkeypatch, refused):
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    refused("decoding")


@BY_EACH_DOOR
def test_batches_are_the_same_and_gpu_and_cpu_took_part(loader, door, monkeypatch):
    stands_in(monkeypatch)
    there, here = loader(door), loader(door, decoding=AUTO)
    for _ in range(2):
        assert contents(here) == contents(there)
    found, expected = here.statistics, there.statistics
    ways = found.decoded_by.devices
    assert found.frames_delivered == expected.frames_delivered
    assert door != "cameras" or found.frames_decoded == expected.frames_decoded
    assert all(each.jobs and each.frames for each in ways.values())
    assert expected.decoded_by is None
    assert found.decoded_by.on_cpu == {}
    assert f"{GPU}: {ways[GPU].jobs} jobs" in str(found.decoded_by)


@BY_DOOR
def test_files_that_a_gpu_fails_on_are_decoded_by_the_cpu_and_reported(
    videos, loader, door, monkeypatch
):
    stands_in(monkeypatch, Fails)
    here = loader(door, decoding=AUTO)
    assert contents(here) == contents(loader(door))
    on_cpu = here.statistics.decoded_by.on_cpu
    assert on_cpu
    assert set(on_cpu) <= {str(each) for each in videos}
    assert all("returned no frame" in each for each in on_cpu.values())


@needs_no_gpu
@BY_DOOR
def test_without_a_gpu_batches_come_from_the_cpu_with_the_reason(loader, door):
    here = loader(door, decoding=AUTO)
    assert contents(here) == contents(loader(door))
    told = here.statistics.decoded_by
    assert told.no_gpu.startswith("PyTorch finds no GPU 0: ")
    assert told.on_cpu == {}
    assert [*told.devices] == ["cpu"]
    assert told.devices["cpu"].jobs


@BY_DOOR
def test_frames_that_stay_are_the_same_whoever_decodes(loader, door, monkeypatch):
    stands_in(monkeypatch)
    monkeypatch.setattr("headrace.decode.gpu.device_scheduler._auto_device", lambda: "cpu")
    there, here = (loader(door, decoding=replace(KEPT, device=way)) for way in ("cpu", "auto"))
    assert contents(here) == contents(there)
    assert all(each.jobs for each in here.statistics.decoded_by.devices.values())


@needs_no_gpu
def test_where_there_is_no_gpu_frames_stay_on_the_cpu_and_a_dataset_decodes_there(loader):
    auto = replace(KEPT, device="auto")
    assert str(next(iter(loader(decoding=auto))).frames.device) == "cpu"
    with pytest.raises(ConfigError, match=r"device must be 'cpu', where frames stay, got 'meta'"):
        loader(decoding=auto, device="meta")
    here, there = loader("frame items", decoding=AUTO), loader("frame items")
    assert torch.equal(here[30]["frames"], there[30]["frames"])
