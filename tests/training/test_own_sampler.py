"""A user's own sampler, of a plain class, is served like one of ours, or refused by name."""

from itertools import islice

import numpy as np
import pytest
import torch

from headrace import Order, Population, SamplerTraits
from headrace.errors import ConfigError
from headrace.sampling.around import Around
from headrace.sampling.bursts import Bursts
from headrace.sampling.clips import RandomClips
from headrace.sampling.frames import Permutation, Uniform
from headrace.sampling.random import Draws, Purpose
from headrace.sampling.spread import SpreadClips
from headrace.training.clip_loader import ClipLoader
from headrace.training.datasets import FrameDataset
from headrace.training.epoch_sampler import EpochSampler
from headrace.training.loader import FrameLoader
from training.videos import SIZE, contents

CLIPS = RandomClips(num_frames=4)


class EveryThird:
    """Each third frame, from another one on in each epoch."""

    traits = SamplerTraits(identity="every 3rd", is_random=True, has_replacement=False)

    def order(self, population: Population, epoch: int) -> Order:
        length = population.num_frames // 3
        return Order(length=length, frames_at=lambda slots: slots * 3 + epoch % 3)


class Drawn:
    """What `Uniform()` draws, in words of its own."""

    traits = SamplerTraits(identity="drawn", is_random=True, has_replacement=True)

    def order(self, population: Population, epoch: int) -> Order:
        draws = Draws(seed=0, epoch=epoch, purpose=Purpose.FRAME)
        frames = population.num_frames
        return Order(length=frames, frames_at=lambda slots: draws.integers(slots, frames))


class FirstFrames:
    """A clip of the first frames of each video."""

    def __init__(self, num_frames):
        self.traits = SamplerTraits(
            identity=f"first {num_frames}",
            is_random=False,
            has_replacement=False,
            num_frames=num_frames,
            frames_needed=num_frames,
        )

    def order(self, population: Population, epoch: int) -> Order:
        steps = np.arange(self.traits.num_frames)
        return Order(
            length=population.num_videos,
            frames_at=lambda slots: population.video_start[slots][:, None] + steps,
        )


@pytest.fixture
def options(store):
    return {"batch_size": 10, "size": SIZE, "store": store, "workers": 2}


def test_frames_are_those_of_the_sampler_and_training_is_resumed(videos, plain, options):
    with FrameLoader(videos, sampling=EveryThird(), **options) as loader:
        batches = [batch for _ in range(2) for batch in loader]
        assert len(loader) == 4
    assert all(torch.equal(batch.frames, plain.of(batch)) for batch in batches)
    with FrameLoader(videos, sampling=EveryThird(), **options) as begun:
        seen = list(islice(begun, 3))
        state = begun.state_dict()
    with FrameLoader(videos, sampling=EveryThird(), **options) as resumed:
        resumed.load_state_dict(state)
        left = [batch for _ in range(2) for batch in resumed]
    assert contents(seen + left) == contents(batches)


def test_drawing_with_replacement_is_believed(videos, options):
    """As far ahead as `Uniform`, the same batches; nearer, where it says that frames come once."""

    class Once(Drawn):
        traits = SamplerTraits(identity="once", is_random=True, has_replacement=False)

    def opened(sampling):
        budget = 60 * SIZE[0] * SIZE[1] * 3
        return FrameLoader(videos, sampling=sampling, memory_budget=budget, **options)

    with opened(Uniform()) as uniform, opened(Drawn()) as drawn, opened(Once()) as once:
        assert contents(drawn) == contents(uniform)
        assert uniform.lookahead == drawn.lookahead > once.lookahead


def test_clips_of_ones_own_are_planned_together(videos, plain, options):
    options = {**options, "batch_size": 2}
    with ClipLoader(videos, clips=FirstFrames(5), lookahead=1, **options) as loader:
        assert loader.lookahead == 5
        batches = list(loader)
    assert [batch.index.tolist() for batch in batches] == [[[0, 1, 2, 3, 4]] * 2] * 2
    assert all(torch.equal(batch.frames, plain.of(batch)) for batch in batches)


def test_the_video_that_is_too_short_for_them_is_named(videos, options):
    with pytest.raises(ConfigError, match=r"needs 19 frames, .*video-3\.mp4 has 18"):
        ClipLoader(videos, clips=FirstFrames(19), **{**options, "batch_size": 2})


def test_an_epoch_sampler_takes_it_and_resumes_it(videos, store):
    with FrameDataset(videos, SIZE, store=store) as frames:
        whole = list(EpochSampler(frames, EveryThird()))
        begun = EpochSampler(frames, EveryThird())
        seen = list(islice(begun, 7))
        resumed = EpochSampler(frames, EveryThird())
        resumed.load_state_dict(begun.state_dict())
        assert seen + list(resumed) == whole
        with pytest.raises(ConfigError, match="EpochSampler needs a sampler of single"):
            EpochSampler(frames, FirstFrames(5))


@pytest.mark.parametrize(
    ("loader", "arguments", "said"),
    [
        (FrameLoader, {"sampling": CLIPS}, "single frames, and RandomClips gives clips; give"),
        (FrameLoader, {"sampling": FirstFrames(5)}, "single frames, and FirstFrames gives clips"),
        (
            FrameLoader,
            {"sampling": Around(delta_seconds=(0, 1), sampling=Uniform())},
            "single frames, and Around gives clips; give it to ClipLoader, as clips=",
        ),
        (ClipLoader, {"clips": Permutation()}, "clips, and Permutation gives single frames; give"),
        (ClipLoader, {"clips": EveryThird()}, "clips, and EveryThird gives single frames; give"),
    ],
)
def test_a_sampler_of_the_other_kind_is_refused(videos, options, loader, arguments, said):
    with pytest.raises(ConfigError, match=f"^{loader.__name__} needs a sampler of {said}"):
        loader(videos, **arguments, **options)


@pytest.mark.parametrize(
    ("loader", "name", "sampler"),
    [
        (FrameLoader, "sampling", Uniform(seed=3)),
        (FrameLoader, "sampling", Bursts(frames_per_burst=2, lanes=10, seed=3)),
        (ClipLoader, "clips", RandomClips(num_frames=4, seed=3)),
        (ClipLoader, "clips", SpreadClips(num_segments=4, seed=3)),
        (ClipLoader, "clips", Around(delta_seconds=(0,), sampling=Uniform(seed=3))),
    ],
)
def test_a_seed_beside_another_of_the_sampler_is_refused(videos, options, loader, name, sampler):
    kind = type(sampler).__name__
    with pytest.raises(ConfigError, match=rf"seed=4 was asked for beside {kind}\(seed=3\); leave"):
        loader(videos, **{name: sampler}, seed=4, **options)
    for seed in (3, None):
        with loader(videos, **{name: sampler}, seed=seed, **options) as opened:
            assert opened.state_dict()["seed"] == 3


@pytest.mark.parametrize("seed", [0, 3])
def test_a_seed_that_it_cannot_take_is_refused(videos, options, seed):
    with pytest.raises(ConfigError, match=f"seed={seed} was asked for, and EveryThird takes none"):
        FrameLoader(videos, sampling=EveryThird(), seed=seed, **options)


def test_what_is_no_sampler_is_refused_by_what_it_lacks(videos, options):
    class Mine:
        order = EveryThird.order

    with pytest.raises(ConfigError, match=r"Mine is no sampler: it has no `traits`; .*Sampler"):
        FrameLoader(videos, sampling=Mine(), **options)
    with (
        FrameDataset(videos, SIZE, store=options["store"]) as frames,
        pytest.raises(ConfigError, match="Mine is no sampler"),
    ):
        EpochSampler(frames, Mine())
    with pytest.raises(ConfigError, match="list is no sampler: it has no `traits` and no `order`"):
        ClipLoader(videos, clips=[], **options)


class Beyond(EveryThird):
    """Has frames that are none, behind the first ones."""

    traits = SamplerTraits(identity="beyond", is_random=False, has_replacement=False)

    def order(self, population: Population, epoch: int) -> Order:
        return Order(length=200, frames_at=lambda slots: slots)


class Straddling(FirstFrames):
    """Has clips that reach from one video into the next."""

    def order(self, population: Population, epoch: int) -> Order:
        steps = np.arange(self.traits.num_frames)
        return Order(length=20, frames_at=lambda slots: slots[:, None] * 4 + steps)


def test_frames_that_there_are_not_are_refused_by_number(videos, options):
    with (
        FrameLoader(videos, sampling=Beyond(), **options) as loader,
        pytest.raises(ConfigError, match=r"Beyond gives frame 1\d\d; frame ids are .* below 113"),
    ):
        list(loader)
    with (
        FrameDataset(videos, SIZE, store=options["store"]) as frames,
        pytest.raises(ConfigError, match="Beyond gives frame 199"),
    ):
        list(EpochSampler(frames, Beyond()))


def test_a_clip_of_two_videos_is_refused(videos, options):
    options = {**options, "batch_size": 4}
    with (
        ClipLoader(videos, clips=Straddling(6), **options) as loader,
        pytest.raises(
            ConfigError, match=r"a clip from frame 36 to 41, with frames of videos \[0, "
        ),
    ):
        list(loader)


def test_an_order_that_is_not_what_was_said_is_refused(videos, options):
    class Mine(FirstFrames):
        traits = EveryThird.traits

        def __init__(self):
            pass

        def order(self, population, epoch):
            return FirstFrames(4).order(population, epoch)

    with pytest.raises(ConfigError, match=r"Mine says in its traits that it samples frames"):
        FrameLoader(videos, sampling=Mine(), **options)
