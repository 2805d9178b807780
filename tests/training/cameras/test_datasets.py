"""Camera streams through a stock DataLoader: workers keep their slots."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from decode.gpus import needs_gpu, needs_no_gpu
from headrace.errors import BackendError, ConfigError
from headrace.runtime import forks
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.cameras.alignment import Alignment
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.stream_sampler import CameraStreamSampler
from headrace.video.camera_layout import CameraLayout
from training.cameras.clips import CAMERAS, LENGTHS, SIZE
from training.videos import with_counters

ALL = sorted((clip, k) for clip, length in enumerate(LENGTHS.values()) for k in range(length))


def shown(batches):
    return [
        (clip, index)
        for batch in batches
        for clip, index in zip(batch["clip"].tolist(), batch["index"].tolist(), strict=True)
        if clip >= 0
    ]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_decode_each_frame_once(dataset, plain, context):
    spent: dict[int, int] = {}
    seen = []
    for rank in range(2):
        sampler = CameraStreamSampler(
            dataset,
            group_num=2,
            num_workers=2,
            interleaved=True,
            rank=rank,
            num_replicas=2,
        )
        batches = DataLoader(
            dataset,
            batch_sampler=sampler,
            num_workers=2,
            multiprocessing_context=context,
            collate_fn=with_counters,
        )
        assert len(batches) == len(sampler)
        for number, (batch, counters) in enumerate(batches):
            spent[2 * rank + number % 2] = counters.frames_decoded
            seen += shown([batch])
            for row, clip in enumerate(batch["clip"].tolist()):
                for camera in range(len(CAMERAS)):
                    if clip >= 0:
                        expected = plain.of(clip, camera, int(batch["index"][row]))
                        assert np.array_equal(batch["frames"][row, camera].numpy(), expected)
    assert sorted(seen) == ALL
    assert sum(spent.values()) == len(ALL) * len(CAMERAS)


def test_without_workers_it_is_what_the_loader_delivers(dataset, layout, store):
    sampler = CameraStreamSampler(dataset, group_num=2, shuffle=True)
    with CameraLoader(layout, group_num=2, size=SIZE, shuffle=True, store=store) as loader:
        for _ in range(2):
            ours = list(loader)
            theirs = list(DataLoader(dataset, batch_sampler=sampler))
            assert len(ours) == len(theirs)
            for one, other in zip(ours, theirs, strict=True):
                assert one.clip_name == other.pop("clip_name")
                for name, value in other.items():
                    assert np.array_equal(value.numpy(), one[name].numpy(), equal_nan=True), name


def test_parts_of_one_clip_in_neighbouring_slots_have_decoders_of_their_own(layout, dataset):
    sampler = CameraStreamSampler(dataset, group_num=2, seq_split=2)
    assert sorted(shown(DataLoader(dataset, batch_sampler=sampler))) == ALL
    # The second part of a clip begins in the middle of a GOP of at most 7 frames.
    assert dataset.counters.frames_decoded <= len(ALL) * len(CAMERAS) + 6 * 3 * len(LENGTHS) + 60


def test_a_frame_that_is_shown_twice_is_decoded_once(tmp_path, store):
    (tmp_path / "clip").mkdir()
    for camera, rate in {"a_fast": 30, "b_slow": 10}.items():
        clip = SynthClip(num_frames=rate, frame_rate=Fraction(rate), size=(64, 96))
        write_clip(tmp_path / "clip" / camera, clip)
    layout = CameraLayout.of_folders([tmp_path], lambda file: 30)
    alignment = Alignment(sync="previous", tolerance_ms=150)
    with CameraStreamDataset(layout, size=SIZE, alignment=alignment, store=store) as dataset:
        batches = list(DataLoader(dataset, batch_sampler=CameraStreamSampler(dataset, group_num=1)))
        assert dataset.counters.frames_decoded == 40
    with CameraLoader(layout, group_num=1, size=SIZE, alignment=alignment, store=store) as loader:
        for one, other in zip(loader, batches, strict=True):
            assert np.array_equal(one.frames.numpy(), other["frames"].numpy())


def test_a_transform_is_given_the_frames_of_an_item(layout, store):
    with CameraStreamDataset(
        layout, size=SIZE, store=store, transform=lambda frames: frames.flatten(0, 1)
    ) as dataset:
        item = dataset[next(iter(CameraStreamSampler(dataset, group_num=1)))[0]]
    assert item["frames"].shape == (9, *SIZE)


def test_a_pass_can_begin_where_training_ended(dataset):
    sampler = CameraStreamSampler(
        dataset, group_num=2, num_workers=2, interleaved=True, shuffle=True, seed=2
    )
    whole = list(sampler)
    sampler.set_epoch(0, skip=5)
    assert len(sampler) == len(whole) - 5
    assert list(sampler) == whole[5:]
    assert list(sampler) != whole


@pytest.mark.filterwarnings("ignore:this process reads more slots")
def test_fewer_sets_than_slots_bring_the_same_frames(layout, store, dataset):
    sampler = CameraStreamSampler(dataset, group_num=2)
    with CameraStreamDataset(layout, num_of_set=1, size=SIZE, store=store) as small:
        for one, other in zip(
            DataLoader(small, batch_sampler=list(sampler)[:6]),
            DataLoader(dataset, batch_sampler=list(CameraStreamSampler(dataset, group_num=2))[:6]),
            strict=True,
        ):
            assert np.array_equal(one["frames"].numpy(), other["frames"].numpy())
        assert small.counters.frames_decoded > dataset.counters.frames_decoded


def test_fewer_sets_than_slots_are_warned_of(layout, store):
    with CameraStreamDataset(layout, num_of_set=1, size=SIZE, store=store) as small:
        batches = CameraStreamSampler(small, group_num=2)
        with pytest.warns(UserWarning, match="more slots than the 1 whose decoders it keeps"):
            list(DataLoader(small, batch_sampler=batches))


def test_workers_that_the_sampler_does_not_know_of_are_warned_of(dataset):
    sampler = CameraStreamSampler(dataset, group_num=2, num_workers=1)
    every_other = DataLoader(dataset, batch_sampler=list(sampler)[::2])  # the first of two's
    with pytest.warns(UserWarning, match="with gaps, so the frames between .* num_workers"):
        list(every_other)


def test_going_on_in_the_middle_is_no_gap(dataset, recwarn):
    sampler = CameraStreamSampler(dataset, group_num=2)
    for skip in (3, 1):
        sampler.set_epoch(0, skip=skip)
        for cells in list(sampler)[:4]:
            for cell in cells:
                dataset[cell]
    assert not [each for each in recwarn if "gaps" in str(each.message)]


def test_other_slots_in_another_epoch_are_no_reason_to_warn(dataset):
    """As a worker gets them after an epoch that was resumed behind an odd batch."""
    sampler = CameraStreamSampler(dataset, group_num=2, num_workers=2, interleaved=True)
    epochs = [list(sampler)[0::2], list(sampler)[1::2]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batches in epochs:
            for cell in (cell for cells in batches for cell in cells):
                dataset[cell]
    assert dataset.counters.frames_decoded == len(ALL) * len(CAMERAS)


@pytest.mark.parametrize(
    ("context", "is_used", "words"),
    [
        ("fork", True, "forked from one that uses CUDA.*multiprocessing_context='spawn'"),
        pytest.param("fork", False, "CUDA cannot start there", marks=needs_no_gpu),
        pytest.param("spawn", True, "CUDA cannot start there", marks=needs_no_gpu),
    ],
)
def test_workers_go_to_the_gpu_unless_they_were_forked_from_one_that_uses_it(
    layout, store, monkeypatch, context, is_used, words
):
    """Not frames of the CPU instead, and not CUDA's own error, which does not say what to do."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(forks, "_torch_has_cuda", lambda: is_used)
    # Where a test before this one has tried to start CUDA here, torch would say so.
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: False)
    dataset = CameraStreamDataset(layout, num_of_set=2, size=SIZE, gpu=0, store=store)
    sampler = CameraStreamSampler(dataset, group_num=2, num_workers=1)
    loader = DataLoader(
        dataset, batch_sampler=sampler, num_workers=1, multiprocessing_context=context
    )
    with pytest.raises(BackendError, match=words):
        next(iter(loader))


@needs_gpu
def test_frames_from_the_gpu_are_those_from_the_cpu(dataset, layout, store):
    sampler = CameraStreamSampler(dataset, group_num=2, num_workers=2, interleaved=True)
    gpu = CameraStreamDataset(layout, num_of_set=2, size=SIZE, gpu=0, store=store)
    workers = {"num_workers": 2, "multiprocessing_context": "spawn"}
    batches = zip(
        DataLoader(dataset, batch_sampler=list(sampler), **workers),
        DataLoader(gpu, batch_sampler=list(sampler), **workers),
        strict=True,
    )
    for expected, found in batches:
        assert torch.equal(expected["frames"], found["frames"])


def test_impossible_requests_are_refused(layout, store, dataset):
    with pytest.raises(BackendError, match=r"decoding on GPU 99 .* leave gpu out"):
        CameraStreamDataset(layout, gpu=99, store=store)
    with pytest.raises(ConfigError, match="gpu must be an integer >= 0, got -1"):
        CameraStreamDataset(layout, gpu=-1, store=store)
    with pytest.raises(ConfigError, match="num_of_set must be an integer >= 1"):
        CameraStreamDataset(layout, num_of_set=0, store=store)
    with pytest.raises(ConfigError, match=r"num_of_file=2000000 .*ulimit -n"):
        CameraStreamDataset(layout, num_of_file=2_000_000, store=store)
    with pytest.raises(ConfigError, match="group_num must be an integer >= 1"):
        CameraStreamSampler(dataset, group_num=0)
    with pytest.raises(ConfigError, match="num_workers must be an integer >= 0"):
        CameraStreamSampler(dataset, num_workers=-1)
    with pytest.raises(ConfigError, match="skip must be an integer >= 0"):
        CameraStreamSampler(dataset).set_epoch(0, skip=-1)
    with pytest.raises(ConfigError, match="skip must be at most 29, the batches of an epoch"):
        CameraStreamSampler(dataset, group_num=5).set_epoch(0, skip=30)
    with pytest.raises(ConfigError, match="seq_split must be an integer >= 1"):
        CameraStreamSampler(dataset, seq_split=1.5)
    with pytest.raises(ConfigError, match="batch_sampler=CameraStreamSampler"):
        next(iter(DataLoader(dataset, batch_size=2)))
    with pytest.raises(ConfigError, match=r"a CameraLayout was given, .* dataclasses.replace"):
        CameraStreamDataset(layout, cameras=["left"], store=store)
