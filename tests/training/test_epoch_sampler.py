"""EpochSampler: each frame in its turn, for every rank, from wherever training stood."""

import shutil
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from headrace.errors import ConfigError
from headrace.sampling.bursts import Bursts
from headrace.sampling.clips import RandomClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.sampling.population import Population
from headrace.testing.synth import write_clip
from headrace.training.datasets import FrameDataset
from headrace.training.epoch_sampler import EpochSampler
from headrace.training.loader import FrameLoader
from headrace.training.manifest.manifest import Manifest
from training.videos import CLIPS, SIZE

POPULATION = Population.of([np.array([5, 9, 2]), np.array([30]), np.array([4, 4, 3])])
FRAMES = POPULATION.num_frames


def ranks(number, sampling, **options):
    return [
        EpochSampler(POPULATION, sampling, rank=rank, num_replicas=number, **options)
        for rank in range(number)
    ]


def dealt(samplers):
    """Return what all ranks are given together, in the order of slots."""
    return [frame for step in zip(*samplers, strict=True) for frame in step]


@pytest.mark.parametrize(
    "sampling", [InOrder(), Uniform(seed=3), Permutation(), Bursts(frames_per_burst=3, lanes=4)]
)
def test_a_pass_is_the_order_of_its_epoch(sampling):
    sampler = EpochSampler(POPULATION, sampling, batch_size=4)
    for epoch in (0, 1):
        assert list(sampler) == sampling.order(POPULATION, epoch)[:].tolist()
    assert len(sampler) == FRAMES


@given(number=st.integers(1, 9))
def test_ranks_together_are_given_each_frame_once_but_for_the_remainder(number):
    samplers = ranks(number, Permutation(seed=1))
    shares = [list(sampler) for sampler in samplers]
    assert {len(share) for share in shares} == {len(samplers[0])} == {-(-FRAMES // number)}
    counts = Counter(frame for share in shares for frame in share)
    assert set(counts) == set(range(FRAMES))
    assert counts.total() - FRAMES < number


def test_slots_that_do_not_share_out_may_be_dropped():
    shares = [list(sampler) for sampler in ranks(5, Permutation(), drop_last=True)]
    assert {len(share) for share in shares} == {FRAMES // 5}
    assert len({frame for share in shares for frame in share}) == FRAMES // 5 * 5


@given(
    before=st.integers(1, 4),
    after=st.integers(1, 4),
    taken=st.integers(0, 13),
    epoch=st.integers(0, 3),
)
def test_training_goes_on_where_it_stood_with_any_number_of_ranks(before, after, taken, epoch):
    samplers = ranks(before, Permutation(seed=7))
    for sampler in samplers:
        sampler.set_epoch(epoch)
    whole = dealt(samplers)
    for sampler in samplers:
        sampler.set_epoch(epoch)
        assert next(iter(sampler)) in whole
    state = samplers[0].state_dict(taken)
    resumed = ranks(after, Permutation(seed=7))
    for sampler in resumed:
        sampler.load_state_dict(state)
        sampler.set_epoch(epoch)
    rest = whole[taken * before : FRAMES]
    assert dealt(resumed)[: len(rest)] == rest
    assert {sampler.epoch for sampler in resumed} == {epoch + 1}


def test_without_workers_the_sampler_knows_what_was_taken(videos, store):
    with FrameDataset(videos, SIZE, store=store) as frames:
        sampler = EpochSampler(frames, Permutation())
        batches = iter(DataLoader(frames, batch_size=10, sampler=sampler))
        for _ in range(3):
            next(batches)
        state = sampler.state_dict()
        assert (state["epoch"], state["slot"]) == (0, 30)
        resumed = EpochSampler(frames, Permutation())
        resumed.load_state_dict(state)
        assert list(resumed) == Permutation().order(frames.population, 0)[30:].tolist()


def test_with_workers_the_loop_says_what_was_taken(videos, store):
    with FrameDataset(videos, SIZE, store=store) as frames:
        sampler = EpochSampler(frames, Permutation())
        loader = DataLoader(frames, batch_size=10, sampler=sampler, num_workers=2)
        batches = iter(loader)
        found = next(batches)
        state = sampler.state_dict(taken=10)
        del batches
        resumed = EpochSampler(frames, Permutation())
        resumed.load_state_dict(state)
        first = frames.population.frame_ids(found["video"].numpy(), found["index"].numpy()).tolist()
        assert first + list(resumed) == Permutation().order(frames.population, 0)[:].tolist()


def test_an_epoch_that_was_taken_to_its_end_is_followed_by_the_next():
    sampler = EpochSampler(POPULATION, Permutation())
    list(sampler)
    state = sampler.state_dict()
    assert (state["epoch"], state["slot"], sampler.epoch) == (1, 0, 1)


def test_a_pass_that_was_left_early_is_followed_by_the_next_epoch():
    sampler = EpochSampler(POPULATION, Permutation())
    next(iter(sampler))
    assert sampler.epoch == 1
    assert list(sampler) == Permutation().order(POPULATION, 1)[:].tolist()


def test_a_place_in_an_epoch_that_was_loaded_is_taken_once():
    sampler = EpochSampler(POPULATION, Permutation())
    state = {**sampler.state_dict(), "slot": 50}
    sampler.load_state_dict(state)
    assert len(list(sampler)) == FRAMES - 50
    assert len(list(sampler)) == FRAMES


def test_an_epoch_over_seconds_needs_no_more_than_the_dataset(videos, store):
    with FrameDataset(videos, SIZE, store=store) as frames:
        assert len(set(EpochSampler(frames, Uniform(over="seconds")))) > 50


def test_samplers_of_clips_are_refused():
    with pytest.raises(ConfigError, match="needs a sampler of single frames, and RandomClips"):
        EpochSampler(POPULATION, RandomClips(num_frames=2))


@pytest.mark.parametrize("frames", [None, Manifest.of_rows([{"path": "a.mp4"}]), ["a.mp4"]])
def test_what_holds_no_frames_is_refused(frames):
    with pytest.raises(ConfigError, match="samples a FrameDataset, or a Population, got"):
        EpochSampler(frames)


@pytest.mark.parametrize("state", [None, "slot", [("epoch", 1)]])
def test_what_is_no_state_is_refused(state):
    with pytest.raises(ConfigError, match="a state is a dict, as state_dict"):
        EpochSampler(POPULATION).load_state_dict(state)
    nowhere = {**EpochSampler(POPULATION).state_dict(), "epoch": None}
    with pytest.raises(ConfigError, match="epoch must be an integer >= 0, got None"):
        EpochSampler(POPULATION).load_state_dict(nowhere)


@pytest.mark.parametrize("other", [Permutation(seed=1), Uniform()])
def test_a_state_of_another_sampling_is_refused(other):
    state = EpochSampler(POPULATION, Permutation()).state_dict()
    with pytest.raises(ConfigError, match=r"does not belong to this .* the same videos"):
        EpochSampler(POPULATION, other).load_state_dict(state)


def test_a_state_of_other_videos_is_refused():
    state = EpochSampler(POPULATION).state_dict()
    other = EpochSampler(Population.of([np.array([57])]))
    with pytest.raises(ConfigError, match=r"does not belong .* videos 3 \(here 1\)"):
        other.load_state_dict(state)


def test_a_state_of_videos_that_changed_places_is_refused(tmp_path, store):
    first = write_clip(tmp_path / "a", CLIPS[1])
    second = shutil.copy(first, tmp_path / "b.mp4")
    with (
        FrameDataset([first, second], SIZE, store=store) as frames,
        FrameDataset([second, first], SIZE, store=store) as swapped,
    ):
        state = EpochSampler(frames).state_dict()
        with pytest.raises(ConfigError, match="does not belong to this loader: checksum"):
            EpochSampler(swapped).load_state_dict(state)


@pytest.mark.parametrize("left", [(), ("videos", "frames", "checksum", "epoch")], ids=len)
def test_a_state_that_says_nothing_is_refused(left):
    sampler = EpochSampler(POPULATION)
    state = {name: sampler.state_dict()[name] for name in left}
    with pytest.raises(ConfigError, match="state"):
        sampler.load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "say batch_size, that of the DataLoader"),
        ({"batch_size": 9}, "9 frames on each of 1 ranks .* 9 lanes or more, or .* at most 8$"),
        ({"batch_size": 8, "rank": 1, "num_replicas": 2}, "ask for 16 lanes .* at most 4$"),
        ({"batch_size": 1, "rank": 1, "num_replicas": 9}, "ask for 9 lanes or more$"),
    ],
    ids=str,
)
def test_bursts_whose_frames_could_meet_in_a_batch_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        EpochSampler(POPULATION, Bursts(frames_per_burst=3, lanes=8), **options)


def test_a_batch_size_means_nothing_where_no_frames_are_mates():
    EpochSampler(POPULATION, Bursts(frames_per_burst=1, lanes=8))
    EpochSampler(POPULATION, batch_size=50, rank=0, num_replicas=9)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("sampling", [Uniform(seed=2), Bursts(frames_per_burst=3, lanes=10)])
def test_a_dataloader_gives_the_batches_of_the_loader(videos, store, sampling, method):
    with (
        FrameDataset(videos, SIZE, store=store) as frames,
        FrameLoader(videos, batch_size=10, size=SIZE, sampling=sampling, store=store) as loader,
    ):
        stock = DataLoader(
            frames,
            batch_size=10,
            sampler=EpochSampler(frames, sampling, batch_size=10),
            num_workers=2,
            multiprocessing_context=method,
        )
        for epoch in range(2 if method == "fork" else 1):
            loader.set_epoch(epoch)
            for mine, theirs in zip(loader, stock, strict=True):
                assert torch.equal(mine.frames, theirs["frame"])
                assert torch.equal(mine.video, theirs["video"])
                assert torch.equal(mine.index, theirs["index"])
                assert torch.equal(mine.pts_seconds, theirs["pts_seconds"])


def test_more_cannot_be_taken_than_there_is():
    with pytest.raises(ConfigError, match="58 samples cannot be taken from a pass of 57"):
        EpochSampler(POPULATION).state_dict(taken=58)
