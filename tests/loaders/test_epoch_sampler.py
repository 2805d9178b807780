"""EpochSampler: each frame in order, for every rank, from any position."""

import shutil
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from headrace import Bursts, Population, SequentialFrames, ShuffledFrames, UniformFrames
from headrace.loaders.frame_dataset import EpochSampler
from loaders.videos import epochs

POPULATION = Population.of([np.array([5, 9, 2]), np.array([30]), np.array([4, 4, 3])])
FRAMES = POPULATION.num_frames
BURSTS = Bursts(frames_per_burst=3, lanes=10)


def ranks(number, sampling, **options):
    return [
        EpochSampler(POPULATION, sampling, rank=rank, num_replicas=number, **options)
        for rank in range(number)
    ]


def dealt(samplers):
    """Return the frames of all ranks together, in slot order."""
    return [frame for step in zip(*samplers, strict=True) for frame in step]


SAMPLINGS = [SequentialFrames(), UniformFrames(seed=3), ShuffledFrames()]


@pytest.mark.parametrize("sampling", [*SAMPLINGS, Bursts(frames_per_burst=3, lanes=4)])
def test_a_pass_is_the_order_of_its_epoch(sampling):
    sampler = EpochSampler(POPULATION, sampling, batch_size=4)
    for epoch in (0, 1):
        assert list(sampler) == sampling.order(POPULATION, epoch)[:].tolist()
    assert len(sampler) == FRAMES


@given(number=st.integers(1, 9))
def test_ranks_together_are_given_each_frame_once_but_for_the_remainder(number):
    samplers = ranks(number, ShuffledFrames(seed=1))
    shares = [list(sampler) for sampler in samplers]
    assert {len(share) for share in shares} == {len(samplers[0])} == {-(-FRAMES // number)}
    counts = Counter(frame for share in shares for frame in share)
    assert set(counts) == set(range(FRAMES))
    assert counts.total() - FRAMES < number


def test_slots_that_do_not_share_out_may_be_dropped():
    shares = [list(sampler) for sampler in ranks(5, ShuffledFrames(), drop_last=True)]
    assert {len(share) for share in shares} == {FRAMES // 5}
    assert len({frame for share in shares for frame in share}) == FRAMES // 5 * 5


FEW = st.integers(1, 4)


@given(before=FEW, after=FEW, taken=st.integers(0, 13), epoch=st.integers(0, 3))
def test_training_goes_on_where_it_stood_with_any_number_of_ranks(before, after, taken, epoch):
    samplers, resumed = (ranks(number, ShuffledFrames(seed=7)) for number in (before, after))
    for sampler in samplers:
        sampler.set_epoch(epoch)
    whole = dealt(samplers)
    for sampler in samplers:
        sampler.set_epoch(epoch)
        assert next(iter(sampler)) in whole
    state = samplers[0].state_dict(taken)
    for sampler in resumed:
        sampler.load_state_dict(state)
        sampler.set_epoch(epoch)
    rest = whole[taken * before : FRAMES]
    assert dealt(resumed)[: len(rest)] == rest
    assert {sampler.epoch for sampler in resumed} == {epoch + 1}


@pytest.mark.parametrize(("workers", "taken"), [(0, {}), (2, {"taken": 10})])
def test_the_position_is_known_without_workers_and_given_by_the_loop_with_them(
    frames, workers, taken
):
    sampler = EpochSampler(frames, ShuffledFrames())
    batches = iter(DataLoader(frames, batch_size=10, sampler=sampler, num_workers=workers))
    found = next(batches)
    state = sampler.state_dict(**taken)
    assert (state["epoch"], state["slot"]) == (0, 10)
    del batches
    first = frames.population.frame_ids(found["video"].numpy(), found["index"].numpy()).tolist()
    resumed = EpochSampler(frames, ShuffledFrames())
    resumed.load_state_dict(state)
    assert first + list(resumed) == ShuffledFrames().order(frames.population, 0)[:].tolist()


def test_a_pass_that_was_taken_or_left_is_followed_by_the_next_epoch():
    taken, left = (EpochSampler(POPULATION, ShuffledFrames()) for _ in range(2))
    list(taken)
    state = taken.state_dict()
    assert (state["epoch"], state["slot"], taken.epoch) == (1, 0, 1)
    next(iter(left))
    assert left.epoch == 1
    assert list(left) == ShuffledFrames().order(POPULATION, 1)[:].tolist()


def test_a_place_in_an_epoch_that_was_loaded_is_taken_once():
    sampler = EpochSampler(POPULATION, ShuffledFrames())
    state = {**sampler.state_dict(), "slot": 50}
    sampler.load_state_dict(state)
    assert len(list(sampler)) == FRAMES - 50
    assert len(list(sampler)) == FRAMES


def test_an_epoch_over_seconds_needs_no_more_than_the_dataset(frames):
    assert len(set(EpochSampler(frames, UniformFrames(over="seconds")))) > 50


def test_invalid_samplers_and_states_of_others_are_refused(loader, videos, tmp_path, refused):
    """States name the same videos, in the same positions; bursts might meet in a batch."""
    first, second = (shutil.copy(videos[1], tmp_path / f"{name}.mp4") for name in "ab")
    here, swapped = (loader("frame items", each) for each in ([first, second], [second, first]))
    state = EpochSampler(POPULATION, ShuffledFrames()).state_dict()
    some = {name: state[name] for name in ("videos", "frames", "checksum", "epoch")}
    bursts = Bursts(frames_per_burst=3, lanes=8)
    names = {"here": here, "swapped": swapped, "state": state, "some": some, "bursts": bursts}
    refused("epoch_sampler", **names)


def test_a_batch_size_has_no_effect_without_bursts():
    EpochSampler(POPULATION, Bursts(frames_per_burst=1, lanes=8))
    EpochSampler(POPULATION, batch_size=50, rank=0, num_replicas=9)


@pytest.mark.parametrize("sampling", [UniformFrames(seed=2), BURSTS], ids=repr)
def test_a_dataloader_gives_the_batches_of_the_loader(loader, frames, sampling):
    each = loader(sampling=sampling)
    sampler = EpochSampler(frames, sampling, batch_size=10)
    stock = DataLoader(frames, batch_size=10, sampler=sampler, num_workers=2)
    names = ("video", "index", "pts_seconds")
    for mine, theirs in zip(epochs(each), epochs(stock), strict=True):
        assert torch.equal(mine.frames, theirs["frames"])
        assert all(torch.equal(mine[name], theirs[name]) for name in names)
