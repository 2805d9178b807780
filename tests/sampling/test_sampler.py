"""Traits and weights of samplers; each invalid call of `refused.txt` has its message."""

import importlib
import pkgutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import headrace
from headrace import Bursts, ConfigError, EpochOrder, Population, SegmentClips, Source, sampling
from headrace.sampling import sampler as samplers
from headrace.sampling.clip_samplers import RandomClips, UniformClips
from headrace.sampling.frame_samplers import SequentialFrames, ShuffledFrames, UniformFrames
from sampling import kit
from tests.kit.pages import calls_of, check_message

POPULATION = Population.of([np.array([5, 9, 2]), np.array([30])])
TRAITS = samplers.SamplerTraits(identity="mine", is_random=False, has_replacement=False)
USE = samplers.SamplerContext(videos=np.arange(2), videos_given=2, batch_size=4)


class EveryTenth:
    """As the docstring of `Sampler` has it."""

    traits = samplers.SamplerTraits(identity="every 10th", is_random=False, has_replacement=False)

    def order(self, population: Population, epoch: int) -> EpochOrder:
        return EpochOrder(length=-(-population.num_frames // 10), frames_at=lambda n: n * 10)


BUILT_IN: list[samplers.Sampler] = [
    *(SequentialFrames(), SequentialFrames(stride=3)),
    *(UniformFrames(seed=2), UniformFrames(over="seconds")),
    *(ShuffledFrames(seed=2), ShuffledFrames(over=(1.0, 3.0)), Bursts(frames_per_burst=3, lanes=4)),
    *(RandomClips(num_frames=3, stride=2), RandomClips(num_frames=16, boundary="wrap")),
    *(UniformClips(num_clips=2, num_frames=4), EveryTenth()),
]


@pytest.mark.parametrize("sampler", BUILT_IN, ids=lambda each: each.traits.identity)
def test_traits_match_orders(sampler):
    timed = Population.of([np.array([5, 9, 2]), np.array([30])], [np.ones(16), np.ones(30)])
    population = timed if sampler.traits.needs_durations else POPULATION
    sampler = samplers.bind_sampler(sampler, USE)
    orders = [sampler.order(population, epoch) for epoch in (0, 1)]
    samplers.check_order(orders[0], sampler, population)
    traits = sampler.traits
    assert isinstance(sampler, samplers.BindableSampler) or not traits.is_random
    first, second = (order[:] for order in orders)
    assert traits.is_random == (not np.array_equal(first, second))
    assert first.shape[1:] == (() if traits.num_frames is None else (traits.num_frames,))
    if traits.num_frames is None and not traits.has_replacement and not hasattr(sampler, "over"):
        assert len(set(first.tolist())) == len(first)
    if traits.seed is not None:
        use = replace(USE, seed=traits.seed + 1)
        if traits.seed:
            with pytest.raises(ConfigError, match="conflicts with"):
                samplers.bind_sampler(sampler, use)
        other = samplers.bind_sampler(replace(sampler, seed=0), use)
        assert other.traits.seed == traits.seed + 1
        assert other.traits.identity != traits.identity
        assert not np.array_equal(other.order(population, 0)[:], first)


def test_a_plain_class_with_two_members_is_a_sampler():
    assert samplers.bind_sampler(sampler := EveryTenth(), USE) is sampler
    assert sampler.order(POPULATION, 0)[:].tolist() == [0, 10, 20, 30, 40]


@pytest.mark.parametrize("asked", [0, 7])
def test_a_seed_is_refused_by_a_random_sampler_that_takes_none(asked):
    class Mine(EveryTenth):
        traits = replace(TRAITS, is_random=True)

    use = replace(USE, seed=asked)
    with pytest.raises(ConfigError, match=f"Mine does not accept seed={asked}"):
        samplers.bind_sampler(Mine(), use)
    assert isinstance(samplers.bind_sampler(EveryTenth(), use), EveryTenth)
    Mine.traits = replace(TRAITS, is_random=True, seed=asked)
    assert isinstance(samplers.bind_sampler(Mine(), use), Mine)


KINDS = {
    "UniformFrames": lambda weights: UniformFrames(over=weights),
    "ShuffledFrames": lambda weights: ShuffledFrames(over=weights),
    "RandomClips": lambda weights: RandomClips(num_frames=2, weights=weights),
    "SegmentClips": lambda weights: SegmentClips(num_segments=2, weights=weights),
}
OPENED = samplers.SamplerContext(
    videos=np.array([0, 2, 3]), videos_given=4, paths=("a.mp4", "c.mp4", "d.mp4")
)
BY_PATH = {"a.mp4": 1.0, "c.mp4": 0.0, "d.mp4": 2.5, "elsewhere.mp4": 9.0}

kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


def kept(sampler):
    return sampler.over if isinstance(sampler, UniformFrames | ShuffledFrames) else sampler.weights


@kinds
@pytest.mark.parametrize(
    "weights",
    [
        (1, 7, 0, 2.5),
        [1.0, 7.0, 0.0, 2.5],
        np.array([1, 7, 0, 2.5]),
        np.array([1, 7, 0, 2.5], np.float32),
        torch.tensor([1, 7, 0, 2.5]),
        [Fraction(1), 7, "0", "5/2"],
        BY_PATH,
        {Path(path): weight for path, weight in BY_PATH.items()},
        {Source(path): weight for path, weight in BY_PATH.items()},
    ],
    ids=str,
)
def test_weights_in_any_form_are_those_of_the_videos_that_were_opened(kind, weights):
    assert kept(samplers.bind_sampler(kind(weights), OPENED)) == (1.0, 0.0, 2.5)


@kinds
def test_whole_numbers_may_be_weights_and_what_is_changed_later_changes_nothing(kind):
    counts = np.bincount([0, 0, 1, 2, 2, 2, 3])
    assert kept(kind(counts)) == (2.0, 1.0, 3.0, 1.0)
    given = dict(BY_PATH)
    sampler = kind(given)
    given["a.mp4"] = 5.0
    assert kept(samplers.bind_sampler(sampler, OPENED)) == (1.0, 0.0, 2.5)


NAMES = {name: getattr(headrace, name) for name in headrace.__all__}
for found in pkgutil.iter_modules(sampling.__path__):
    NAMES |= vars(importlib.import_module(f"{sampling.__name__}.{found.name}"))
NAMES |= vars(kit) | {
    **{"BY_PATH": BY_PATH, "OPENED": OPENED, "TRAITS": TRAITS, "TWO": POPULATION, "USE": USE},
    "CAMERA": np.full(400, 30),
    "FIVE": Population.of([np.array([5])]),
    "FOUR": Population.of([np.array(gops) for gops in ([20], [9, 3], [30], [11])]),
    "GOPS": np.array([250, 80, 30, 120, 20] * 20),
    "NAMELESS": replace(OPENED, paths=()),
    **{"Path": Path, "np": np, "replace": replace},
    **{"INFINITE": float("inf"), "NAN": float("nan")},
    "SECONDS": np.arange(25) / 12,
    "TIMED": kit.population_of([kit.even(120, 15, 1 / 90000), kit.even(30, 30, 1 / 1000)]),
    "TIMES": np.array([0.0, 0.1, 0.2, 0.5, 0.6]),
    "mine": lambda **members: type("Mine", (), members)(),
}


@pytest.mark.parametrize(("call", "said"), calls_of(Path(__file__).with_name("refused.txt")))
def test_what_cannot_be_sampled_is_refused(call, said):
    check_message(call, said, NAMES)
