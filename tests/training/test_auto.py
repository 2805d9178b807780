"""Loaders whose jobs go to a GPU or the CPU: the same batches, and they say what was done where."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from decode import stand_in
from decode.doubles_of_gpu import GPU, Fails, stands_in
from decode.gpus import needs_gpu, needs_no_gpu
from headrace.decode.decoding import Decoding
from headrace.errors import ConfigError
from headrace.sampling.clips import RandomClips
from headrace.training.cameras.loader import CameraLoader
from headrace.training.clip_loader import ClipLoader
from headrace.training.datasets import FrameDataset
from headrace.training.loader import FrameLoader
from training.cameras.clips import SIZE as CAMERA_SIZE
from training.cameras.clips import write_layout
from training.videos import SIZE, contents

AUTO = Decoding(device="auto")
TESTS = Path(__file__).parents[1]
OPENERS = {
    "FrameLoader": lambda videos, **how: FrameLoader(videos, batch_size=8, size=SIZE, **how),
    "ClipLoader": lambda videos, **how: ClipLoader(
        videos, clips=RandomClips(num_frames=4, stride=2), batch_size=3, size=SIZE, **how
    ),
}
WAYS = pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)


def ways_of(loader):
    return loader.statistics.decoded_by.ways


@WAYS
def test_batches_are_the_same_and_both_took_part(videos, store, opener, monkeypatch):
    stands_in(monkeypatch)
    with opener(videos, store=store) as there, opener(videos, store=store, decoding=AUTO) as here:
        for _ in range(2):
            assert contents(here) == contents(there)
        found, expected = here.statistics, there.statistics
        ways = ways_of(here)
    assert found.frames_delivered == expected.frames_delivered
    assert all(each.jobs for each in ways.values())
    assert expected.decoded_by is None
    assert found.decoded_by.on_cpu == {}
    assert f"{GPU}: {ways[GPU].jobs} jobs" in str(found.decoded_by)


@WAYS
def test_what_a_gpu_fails_on_is_decoded_by_the_cpu_and_said_with_the_reason(
    videos, store, opener, monkeypatch
):
    stands_in(monkeypatch, Fails)
    with opener(videos, store=store) as there, opener(videos, store=store, decoding=AUTO) as here:
        assert contents(here) == contents(there)
        told = here.statistics.decoded_by
    assert told.on_cpu
    assert set(told.on_cpu) <= {str(each) for each in videos}
    assert all("gave no frame" in each for each in told.on_cpu.values())


@needs_no_gpu
@WAYS
def test_without_a_gpu_batches_are_those_of_the_cpu_and_it_says_why(videos, store, opener):
    with opener(videos, store=store) as there, opener(videos, store=store, decoding=AUTO) as here:
        assert contents(here) == contents(there)
        told = here.statistics.decoded_by
    assert told.no_gpu.startswith("PyTorch finds no GPU 0: ")
    assert told.on_cpu == {}
    assert [*told.ways] == ["cpu"]
    assert told.ways["cpu"].jobs


def test_camera_streams_go_either_way_by_sequences(tmp_path, store, monkeypatch):
    stands_in(monkeypatch)
    layout = write_layout(tmp_path)
    options = {"group_num": 2, "size": CAMERA_SIZE, "store": store}
    with (
        CameraLoader(layout, **options) as there,
        CameraLoader(layout, **options, decoding=AUTO) as here,
    ):
        for expected, found in zip(there, here, strict=True):
            assert torch.equal(expected.frames, found.frames)
        told = here.statistics.decoded_by
        assert here.statistics.frames_decoded == there.statistics.frames_decoded
    assert all(each.frames for each in told.ways.values())


@WAYS
def test_frames_that_stay_are_the_same_whoever_decodes(videos, store, opener, monkeypatch):
    stands_in(monkeypatch)
    monkeypatch.setattr("headrace.decode.chooser._gpu_or_cpu", lambda: "cpu")
    kept, auto = (Decoding(device=each, keeps_on_device=True) for each in ("cpu", "auto"))
    with (
        opener(videos, store=store, decoding=kept) as there,
        opener(videos, store=store, decoding=auto) as here,
    ):
        assert contents(here) == contents(there)
        assert all(each.jobs for each in ways_of(here).values())


@needs_no_gpu
def test_frames_that_stay_are_on_the_cpu_where_there_is_no_gpu(videos, store):
    auto = Decoding(device="auto", keeps_on_device=True)
    with FrameLoader(videos, batch_size=8, size=SIZE, store=store, decoding=auto) as loader:
        assert str(next(iter(loader)).frames.device) == "cpu"
    with pytest.raises(ConfigError, match=r"device='meta' .* frames were to stay on cpu"):
        FrameLoader(videos, size=SIZE, store=store, decoding=auto, device="meta")


@needs_no_gpu
def test_a_dataset_decodes_by_the_cpu_where_there_is_no_gpu(videos, store):
    with (
        FrameDataset(videos, SIZE, store=store) as there,
        FrameDataset(videos, SIZE, decoding=AUTO, store=store) as here,
    ):
        assert torch.equal(here[30]["frame"], there[30]["frame"])


def test_another_backend_does_not_share_the_work():
    with pytest.raises(ConfigError, match="by PyAV, whose frames are the same on both; got torch"):
        Decoding(backend="torchcodec", device="auto")


@pytest.mark.skipif(not stand_in.CAN_BE_BUILT, reason="gcc or the headers of codecs are not here")
def test_nvdec_and_the_cpu_share_the_work_on_the_stand_in_for_the_driver(tmp_path):
    driver = tmp_path / "driver"
    driver.mkdir()
    stand_in.build(driver)
    environment = {"LD_LIBRARY_PATH": str(driver), "STAND_IN_PICTURES": str(tmp_path / "pictures")}
    run = subprocess.run(
        [sys.executable, "-m", "training.auto_on_stand_in", str(tmp_path)],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(run.stdout)
    assert found["equal"] is True
    assert found["jobs"]["cpu"]
    assert found["jobs"][GPU]
    [(file, reason)] = found["on_cpu"].items()
    assert "unknown" in file
    assert "GPU 0 gave no frame" in reason


@needs_gpu
@WAYS
def test_batches_from_the_gpu_and_the_cpu_together_are_those_of_the_cpu(videos, store, opener):
    with opener(videos, store=store) as there, opener(videos, store=store, decoding=AUTO) as here:
        assert contents(here) == contents(there)
        told = here.statistics.decoded_by
    assert all(each.jobs for each in told.ways.values()), str(told)
