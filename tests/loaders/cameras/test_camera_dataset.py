"""CameraStreamDataset in a stock DataLoader: each worker has its slots, positions are stable."""

import itertools

import pytest
import torch
from torch.utils.data import DataLoader

from decode.gpus import needs_gpu, needs_no_gpu
from forked import raised_by_a_worker
from headrace import BackendError, CameraStreamSampler, SlotMemory
from headrace.runtime import fork_safety as forks
from loaders.cameras.clips import CAMERAS, EVERY, LENGTHS
from loaders.videos import contents, samples, with_counters

TWO = {"num_workers": 2, "interleaved": True}


def shown(batches):
    return [position for position in samples(batches, "clip", "index") if position[0] >= 0]


@pytest.fixture
def sampler(dataset):
    """Return `sampler(**options)`: a sampler of the dataset with two slots."""
    return lambda **options: CameraStreamSampler(dataset, **{"group_num": 2, **options})


@pytest.mark.parametrize(("context", "ranks", "workers"), [("fork", 2, 2), ("spawn", 1, 1)])
def test_workers_decode_each_frame_once(dataset, sampler, plain_cameras, context, ranks, workers):
    spent: dict[int, int] = {}
    seen = []
    how = {"multiprocessing_context": context, "collate_fn": with_counters}
    for rank in range(ranks):
        order = sampler(rank=rank, num_replicas=ranks, num_workers=workers, interleaved=True)
        batches = DataLoader(dataset, batch_sampler=order, num_workers=workers, **how)
        assert len(batches) == len(order)
        for number, (batch, counters) in enumerate(batches):
            spent[2 * rank + number % workers] = counters.frames_decoded
            seen += shown([batch])
            plain_cameras.check(batch)
            is_there = (batch["clip"] >= 0)[:, None].expand(-1, len(CAMERAS))
            assert torch.equal(batch["frame"] >= 0, is_there)
    assert sorted(seen) == sorted(EVERY)
    assert sum(spent.values()) == len(EVERY) * len(CAMERAS)


def test_parts_of_one_clip_in_neighbouring_slots_have_decoders_of_their_own(dataset, sampler):
    assert sorted(shown(DataLoader(dataset, batch_sampler=sampler(seq_split=2)))) == sorted(EVERY)
    # The second part of a clip begins in the middle of a GOP of at most 7 frames.
    assert dataset.counters.frames_decoded <= len(EVERY) * len(CAMERAS) + 6 * 3 * len(LENGTHS) + 60


def test_a_pass_can_begin_where_training_ended(sampler):
    order = sampler(shuffle=True, seed=2, **TWO)
    full = list(order)
    order.set_epoch(0, skip=5)
    assert len(order) == len(full) - 5
    assert list(order) == full[5:]
    assert list(order) != full


def test_fewer_sets_than_slots_bring_the_same_frames_and_are_warned_of(opener, dataset, sampler):
    small = opener("camera items", num_of_set=1)
    some = list(sampler())[:6]
    with pytest.warns(UserWarning, match="more slots than the 1 whose decoders stay"):
        result = contents(DataLoader(small, batch_sampler=some))
    assert result == contents(DataLoader(dataset, batch_sampler=some))
    assert small.counters.frames_decoded > dataset.counters.frames_decoded


def test_workers_that_the_sampler_does_not_know_of_are_warned_of(dataset, sampler):
    every_other = list(sampler(num_workers=1))[::2]  # the batches of the first of two workers
    with pytest.warns(UserWarning, match="with gaps, and decodes the skipped .* num_workers"):
        list(DataLoader(dataset, batch_sampler=every_other))


def test_going_on_in_the_middle_is_no_gap_and_other_slots_in_another_epoch_are_none(
    opener, dataset, sampler
):
    """The cells of a worker after a resume behind an odd number of batches."""
    again = opener("camera items")
    for skip in (3, 1):
        order = CameraStreamSampler(again, group_num=2)
        order.set_epoch(0, skip=skip)
        for cell in itertools.chain(*list(order)[:4]):
            again[cell]
    order = sampler(**TWO)
    for cell in itertools.chain(*list(order)[0::2], *list(order)[1::2]):
        dataset[cell]
    assert dataset.counters.frames_decoded == len(EVERY) * len(CAMERAS)


@pytest.mark.parametrize(
    ("context", "is_used", "words"),
    [
        ("fork", True, "forked from one that uses CUDA.*multiprocessing_context='spawn'"),
        pytest.param("fork", False, "CUDA cannot start", marks=needs_no_gpu),
        pytest.param("spawn", True, "CUDA cannot start", marks=needs_no_gpu),
    ],
)
def test_workers_go_to_the_gpu_unless_they_were_forked_from_one_that_uses_it(
    opener, one_gpu, monkeypatch, context, is_used, words
):
    """No fallback to the CPU, and no bare CUDA error, which has no fix."""
    monkeypatch.setattr(forks, "_torch_has_cuda", lambda: is_used)
    # torch reports a failed CUDA start of an earlier test of this process.
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: False)
    dataset = opener("camera items", gpu=0)
    order = CameraStreamSampler(dataset, group_num=2, num_workers=1)
    workers = {"num_workers": 1, "multiprocessing_context": context}
    loader = DataLoader(dataset, batch_sampler=order, **workers)
    with raised_by_a_worker(BackendError, words):
        next(iter(loader))


@needs_gpu
def test_frames_from_the_gpu_are_those_from_the_cpu(dataset, sampler, opener):
    order = list(sampler(**TWO))
    workers = {"num_workers": 2, "multiprocessing_context": "spawn"}
    datasets = (dataset, opener("camera items", gpu=0))
    here, there = (contents(DataLoader(d, batch_sampler=order, **workers)) for d in datasets)
    assert here == there


def test_impossible_requests_are_refused(dataset, sampler, refused):
    within = sampler(group_num=1, **TWO)
    within.set_epoch(0, skip=1)
    first = next(iter(DataLoader(dataset, batch_sampler=sampler(group_num=1))))
    half = DataLoader(dataset, batch_sampler=within)
    refused("camera_datasets", within=within, half=half, first=first)


def leaps(position):
    """Return how often a clip goes on at another position than before."""
    return sum(
        clip >= 0 and index > 0 and (clip, index - 1) != before
        for before, (clip, index) in itertools.pairwise(position)
    )


def by_place(batches):
    """Return for each position of the batch its sequence of (clip, index)."""
    return [*zip(*(samples(batch, "clip", "index") for batch in batches), strict=True)]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_joined_batches_keep_every_clip_in_its_place(opener, small, workers):
    items, number = opener("camera items", small), max(1, workers)
    options = {"group_num": 1, "num_workers": workers, "interleaved": True, "shuffle": True}
    order = CameraStreamSampler(items, **options)
    every = [(clip, k) for clip, length in enumerate((6, 4, 9)) for k in range(length)]
    for skip in (0, 2):
        order.set_epoch(1, skip=skip * number)
        steps = list(order.joined(DataLoader(items, batch_sampler=order, num_workers=workers)))
        assert [len(step) for step in steps] == [number] * len(steps)
        assert sum(map(leaps, by_place(steps))) == 0
        assert skip or sorted(shown(steps)) == every


def test_workers_that_take_turns_mix_the_clips_of_a_place_and_memory_by_slot_follows_them(
    dataset, sampler
):
    batches = list(DataLoader(dataset, batch_sampler=sampler(**TWO), num_workers=2))
    assert sum(map(leaps, by_place(batches))) > len(EVERY) // 2
    memory, mixed = SlotMemory(torch.tensor([-1, -1])), 0
    for batch in batches:
        before = memory.of(batch)
        now = torch.stack([batch["clip"], batch["index"]], 1)
        goes_on = ~batch["first_frame"] & (batch["clip"] >= 0)
        mixed += int((before[goes_on] != now[goes_on] - torch.tensor([0, 1])).sum())
        assert (before[batch["first_frame"]] == -1).all()
        memory.keep(batch, now)
    assert mixed == 0


def test_an_endless_sampler_goes_on_by_skipping(sampler):
    order, resumed = (sampler(tail="endless", shuffle=True) for _ in range(2))
    full = list(itertools.islice(order, 300))
    resumed.set_epoch(0, skip=250)
    assert list(itertools.islice(resumed, 50)) == full[250:]
