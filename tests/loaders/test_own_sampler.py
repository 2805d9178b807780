"""A user's own sampler class works like a built-in one, or is refused by name."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headrace import Bursts, DeltaFrames, EpochOrder, Population, SamplerTraits, UniformFrames
from headrace.loaders.frame_dataset import EpochSampler
from headrace.sampling.clip_samplers import RandomClips, SegmentClips
from headrace.sampling.counter_rng import CounterRng, RngStream
from loaders.videos import FRAME_BYTES, contents, epochs, resumed, takes


class EveryThird:
    """Each third frame, with another first one in each epoch."""

    traits = SamplerTraits(identity="every 3rd", is_random=True, has_replacement=False)

    def order(self, population: Population, epoch: int) -> EpochOrder:
        length = population.num_frames // 3
        return EpochOrder(length=length, frames_at=lambda slots: slots * 3 + epoch % 3)


class Drawn:
    """The frames of `UniformFrames()`, by its own code."""

    traits = SamplerTraits(identity="drawn", is_random=True, has_replacement=True)

    def order(self, population: Population, epoch: int) -> EpochOrder:
        draws = CounterRng(seed=0, epoch=epoch, purpose=RngStream.FRAME)
        frames = population.num_frames
        return EpochOrder(length=frames, frames_at=lambda slots: draws.integers(slots, frames))


class FirstFrames:
    """A clip of the first frames of each video."""

    def __init__(self, num_frames):
        lengths = {"num_frames": num_frames, "frames_needed": num_frames}
        self.traits = replace(Beyond.traits, identity=f"first {num_frames}", **lengths)

    def order(self, population: Population, epoch: int) -> EpochOrder:
        first, steps = population.video_start, np.arange(self.traits.num_frames)
        length = population.num_videos
        return EpochOrder(length=length, frames_at=lambda slots: first[slots][:, None] + steps)


class Beyond(EveryThird):
    """Samples frame ids beyond the last frame."""

    traits = SamplerTraits(identity="beyond", is_random=False, has_replacement=False)

    def order(self, population: Population, epoch: int) -> EpochOrder:
        return EpochOrder(length=200, frames_at=lambda slots: slots)


class Straddling(FirstFrames):
    """Samples clips that reach from one video into the next."""

    def order(self, population: Population, epoch: int) -> EpochOrder:
        steps = np.arange(self.traits.num_frames)
        return EpochOrder(length=20, frames_at=lambda slots: slots[:, None] * 4 + steps)


class OfAnotherKind(EveryThird):
    """Declares frames, and samples clips."""

    def order(self, population, epoch):
        return FirstFrames(4).order(population, epoch)


class WithoutTraits:
    order = EveryThird.order


def test_frames_are_those_of_the_sampler(loader, plain):
    each = loader(sampling=EveryThird())
    batches = epochs(each)
    assert len(each) == 4
    assert all(torch.equal(batch.frames, plain.of(batch)) for batch in batches)
    begun, after = (loader(sampling=EveryThird()) for _ in range(2))
    assert contents(resumed(begun, after, 3, 2)) == contents(batches)


def test_drawing_with_replacement_is_believed(loader):
    """The look-ahead of `UniformFrames`, with the same batches; less where frames come once."""
    once = Drawn()
    once.traits = replace(Drawn.traits, has_replacement=False)
    uniform, drawn, once = (
        loader(sampling=sampling, memory_budget=60 * FRAME_BYTES, hold="rgb")
        for sampling in (UniformFrames(), Drawn(), once)
    )
    assert contents(drawn) == contents(uniform)
    assert uniform.lookahead == drawn.lookahead > once.lookahead


def test_clips_of_ones_own_are_planned_together(loader, plain):
    each = loader("clips", clips=FirstFrames(5), lookahead=1)
    assert each.lookahead == 5
    batches = list(each)
    assert [batch.index.tolist() for batch in batches] == [[[0, 1, 2, 3, 4]] * 2] * 2
    assert all(torch.equal(batch.frames, plain.of(batch)) for batch in batches)


def test_an_epoch_sampler_takes_it_and_resumes_it(frames):
    whole = list(EpochSampler(frames, EveryThird()))
    assert resumed(*(EpochSampler(frames, EveryThird()) for _ in range(2)), 7) == whole


SEEDED = [
    *(UniformFrames(seed=3), Bursts(frames_per_burst=2, lanes=10, seed=3)),
    *(RandomClips(num_frames=4, seed=3), SegmentClips(num_segments=4, seed=3)),
    DeltaFrames(delta_seconds=(0,), sampling=UniformFrames(seed=3)),
]


@pytest.mark.parametrize("sampler", SEEDED, ids=repr)
def test_the_seed_of_a_sampler_may_be_repeated(loader, sampler):
    door, option = takes(sampler)
    for seed in (3, None):
        assert loader(door, seed=seed, **option).state_dict()["seed"] == 3


def test_invalid_samplers_and_those_of_another_kind_are_refused(refused):
    refused("own_sampler")
