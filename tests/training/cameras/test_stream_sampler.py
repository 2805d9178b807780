"""Slots dealt to the workers of a stock DataLoader, and batches in which places stay."""

import itertools

import pytest
import torch
from torch.utils.data import DataLoader

from headrace.errors import ConfigError
from headrace.training.cameras.slot_memory import SlotMemory
from headrace.training.cameras.stream_sampler import CameraStreamSampler
from training.cameras.clips import LENGTHS

ALL = sorted((clip, k) for clip, length in enumerate(LENGTHS.values()) for k in range(length))


def moments_by_place(batches):
    """Return for each place of the batch the (clip, index) that it shows, one after the other."""
    rows = [zip(batch["clip"].tolist(), batch["index"].tolist(), strict=True) for batch in batches]
    return [list(place) for place in zip(*rows, strict=True)]


def leaps(place):
    """Return how often a clip goes on at another place than before."""
    return sum(
        clip >= 0 and index > 0 and (clip, index - 1) != before
        for before, (clip, index) in itertools.pairwise(place)
    )


def test_workers_that_take_turns_are_refused_unless_that_is_said(dataset):
    """As memory that is kept by place would see another clip in most moments."""
    with pytest.raises(
        ConfigError,
        match=r"memory kept by place would mix them; .*SlotMemory, and say interleaved=True",
    ):
        CameraStreamSampler(dataset, group_num=2, num_workers=2)
    sampler = CameraStreamSampler(dataset, group_num=2, num_workers=2, interleaved=True)
    batches = list(DataLoader(dataset, batch_sampler=sampler, num_workers=2))
    assert sum(map(leaps, moments_by_place(batches))) > len(ALL) // 2


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_joined_batches_keep_every_clip_in_its_place(dataset, workers):
    options = {"group_num": 1, "num_workers": workers, "interleaved": True, "shuffle": True}
    sampler = CameraStreamSampler(dataset, **options)
    for skip in (0, 2):
        sampler.set_epoch(1, skip=skip * max(1, workers))
        loader = DataLoader(dataset, batch_sampler=sampler, num_workers=workers)
        steps = list(sampler.joined(loader))
        assert [len(step) for step in steps] == [max(1, workers)] * len(steps)
        places = moments_by_place(steps)
        assert sum(map(leaps, places)) == 0
        if not skip:
            assert sorted(cell for place in places for cell in place if cell[0] >= 0) == ALL


def test_joined_batches_that_begin_within_a_step_are_refused(dataset):
    sampler = CameraStreamSampler(dataset, group_num=1, num_workers=2, interleaved=True)
    sampler.set_epoch(0, skip=1)
    with pytest.raises(ConfigError, match=r"slots \[1, 0\] came for \[0, 1\]"):
        list(sampler.joined(DataLoader(dataset, batch_sampler=sampler)))
    first = next(iter(DataLoader(dataset, batch_sampler=CameraStreamSampler(dataset, group_num=1))))
    with pytest.raises(ConfigError, match="2 batches make a step of all workers, and 1 came last"):
        list(sampler.joined([first]))


def test_memory_by_slot_follows_the_clip_with_workers(dataset):
    sampler = CameraStreamSampler(dataset, group_num=2, num_workers=2, interleaved=True)
    memory, mixed = SlotMemory(torch.tensor([-1, -1])), 0
    for batch in DataLoader(dataset, batch_sampler=sampler, num_workers=2):
        before = memory.of(batch)
        now = torch.stack([batch["clip"], batch["index"]], 1)
        goes_on = ~batch["first_frame"] & (batch["clip"] >= 0)
        mixed += int((before[goes_on] != now[goes_on] - torch.tensor([0, 1])).sum())
        assert (before[batch["first_frame"]] == -1).all()
        memory.keep(batch, now)
    assert mixed == 0


def test_an_endless_sampler_has_no_length_and_goes_on_by_skipping(dataset):
    options = {"group_num": 2, "tail": "endless", "shuffle": True}
    sampler = CameraStreamSampler(dataset, **options)
    with pytest.raises(TypeError, match=r"endless.* has no length, as it never ends"):
        len(sampler)
    cells = list(itertools.islice(sampler, 300))
    resumed = CameraStreamSampler(dataset, **options)
    resumed.set_epoch(0, skip=250)
    assert list(itertools.islice(resumed, 50)) == cells[250:]


def test_what_is_no_set_of_cameras_is_refused():
    with pytest.raises(ConfigError, match="samples a CameraStreamDataset, got str; give it the"):
        CameraStreamSampler("index_frame.json")
