"""Chance of transforms: one draw for each sample, that follows from its place in training alone."""

import random
from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset
from torchvision.transforms import v2

from headrace.errors import ConfigError
from headrace.sampling.clips import RandomClips
from headrace.sampling.frames import Permutation, Uniform
from headrace.training.clip_loader import ClipLoader
from headrace.training.datasets import FrameDataset, VideoDataset
from headrace.training.epoch_sampler import EpochSampler
from headrace.training.loader import FrameLoader
from headrace.training.transforms import WithSample
from training.videos import SIZE, contents

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

FLIP = v2.RandomHorizontalFlip()


@pytest.fixture
def loader(opens, videos, store):
    return partial(opens, FrameLoader, videos, batch_size=10, size=SIZE, store=store, workers=1)


def draws(frames):
    """Put one draw of each generator in place of the pixels."""
    return torch.tensor([float(torch.rand(())), random.random(), float(np.random.rand())])


def test_each_frame_of_a_batch_is_flipped_or_not(loader, plain):
    flipped = []
    for batch in loader(transform=FLIP):
        for frame, was in zip(batch.frames, plain.of(batch), strict=True):
            assert torch.equal(frame, was) or torch.equal(frame, was.flip(-1))
            flipped.append(not torch.equal(frame, was))
        assert batch.frames.stride(1) == 1  # colour stays innermost
    assert 20 < sum(flipped) < 93


def test_a_batch_transform_draws_once_for_all(loader, plain):
    flipped = set()
    for batch in loader(batch_transform=FLIP):
        was = plain.of(batch)
        assert torch.equal(batch.frames, was) or torch.equal(batch.frames, was.flip(-1))
        flipped.add(torch.equal(batch.frames, was))
    assert flipped == {True, False}


def test_a_clip_is_transformed_as_one(videos, store, plain):
    with ClipLoader(
        videos,
        batch_size=4,
        clips=RandomClips(num_frames=5),
        size=SIZE,
        store=store,
        transform=FLIP,
    ) as clips:
        for batch in clips:
            for clip, was in zip(batch.frames, plain.of(batch), strict=True):
                assert torch.equal(clip, was) or torch.equal(clip, was.flip(-1))


def test_chance_is_the_same_with_any_workers_batch_size_and_after_resuming(loader):
    def drawn(each):
        return torch.cat([batch.frames for batch in each])

    whole = drawn(loader(transform=draws))
    assert whole.shape == (113, 3)
    assert len(whole.unique()) == 3 * 113
    assert torch.equal(drawn(loader(transform=draws, workers=3, batch_size=7)), whole)
    begun = loader(transform=draws)
    first = drawn(islice(begun, 4))
    torch.manual_seed(5)
    resumed = loader(transform=draws, workers=2)
    resumed.load_state_dict(begun.state_dict())
    assert torch.equal(torch.cat([first, drawn(resumed)]), whole)
    assert not torch.isin(drawn(resumed), whole).any()
    assert not torch.isin(drawn(loader(transform=draws, seed=1)), whole).any()


def test_ranks_draw_what_one_alone_would(loader):
    alone = torch.cat([batch.frames for batch in loader(transform=draws)])
    shares = [
        torch.cat([b.frames for b in loader(transform=draws, rank=rank, num_replicas=2)])
        for rank in range(2)
    ]
    assert torch.equal(torch.stack(shares, 1).flatten(0, 1)[:113], alone)


def test_the_generators_of_the_process_go_on_as_if_nothing_was_drawn(loader):
    def state():
        return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()

    before = state()
    next(iter(loader(transform=draws)))
    assert state() == before


def test_a_transform_may_be_told_which_sample_it_is_given(loader):
    def named(frame, sample):
        assert frame.shape == (3, *SIZE)
        return torch.stack([sample["video"], sample["index"]])

    for batch in loader(transform=WithSample(named)):
        assert torch.equal(batch.frames, torch.stack([batch.video, batch.index], 1))


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (lambda frame: frame[..., : int(torch.randint(2, 9, ()))], "must make all samples alike"),
        (lambda frame: frame.numpy(), "transform must return a tensor, got numpy array uint8 "),
    ],
)
def test_samples_that_make_no_batch_are_refused(loader, transform, said):
    with pytest.raises(ConfigError, match=said):
        next(iter(loader(transform=transform)))


def test_no_transform_costs_no_copy(loader):
    plain, same = loader(), loader(transform=lambda frame: frame)
    assert contents(plain) == contents(same)


@pytest.mark.parametrize("workers", [0, 2])
def test_items_of_a_dataset_draw_alike_in_any_process(videos, store, workers):
    def drawn(data, **how):
        return torch.cat([batch["frame"] for batch in DataLoader(data, batch_size=9, **how)])

    with FrameDataset(videos, SIZE, draws, store=store) as frames:
        sampler = EpochSampler(frames, Permutation())
        first = drawn(frames, sampler=sampler, num_workers=workers)
        second = drawn(frames, sampler=sampler, num_workers=workers)
        assert not torch.isin(second, first).any()
        again = EpochSampler(frames, Permutation())
        assert torch.equal(drawn(frames, sampler=again), first)


def test_items_whose_epoch_nobody_says_draw_anew(videos, store):
    with FrameDataset(videos, SIZE, draws, store=store) as frames:
        assert not torch.isin(frames[3]["frame"], frames[3]["frame"]).any()
        frames.set_epoch(0)
        assert torch.equal(frames[3]["frame"], frames[3]["frame"])


def test_a_transform_of_a_dataset_may_be_told_which_item_it_is_given(videos, store):
    told = WithSample(lambda _, sample: sample["video"])
    with (
        FrameDataset(videos, SIZE, told, store=store) as frames,
        VideoDataset(videos, 4, 3, told, size=SIZE, store=store) as clips,
    ):
        assert [item["frame"] for item in frames.__getitems__([0, 41])] == [0, 1]
        assert [clips[video]["frames"] for video in range(4)] == [0, 1, 2, 3]


def test_a_wrapper_that_asks_for_frames_one_by_one_is_told_once(videos, store):
    class Wrapper:
        def __init__(self, frames):
            self.frames = frames

        def __len__(self):
            return len(self.frames)

        def __getitem__(self, frame):
            return self.frames[frame]

    with FrameDataset(videos, SIZE, store=store) as frames:
        sampler = EpochSampler(frames, Uniform())
        with pytest.warns(
            UserWarning, match=r"64 frames were asked for one by one, and \d+ de"
        ) as w:
            list(DataLoader(Wrapper(frames), batch_size=10, sampler=sampler))
        assert len(w) == 1
        assert "__getitems__" in str(w[0].message)
    with FrameDataset(videos, SIZE, store=store) as frames:
        list(DataLoader(Subset(frames, range(113)), batch_size=10))
        for frame in range(113):  # in order, no GOP is decoded twice
            frames[frame]
