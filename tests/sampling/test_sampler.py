"""What a sampler must say of itself, and weights of videos; what is wrong is refused by name."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace import Bursts, ConfigError, Order, Population, Source, SpreadClips
from headrace.sampling.clips import RandomClips, UniformClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.sampling.sampler import (
    AdaptableSampler,
    Sampler,
    SamplerTraits,
    SamplerUse,
    adapted,
    check_order,
)

POPULATION = Population.of([np.array([5, 9, 2]), np.array([30])])
TRAITS = SamplerTraits(identity="mine", is_random=False, has_replacement=False)
USE = SamplerUse(videos=np.arange(2), videos_given=2, batch_size=4)


class EveryTenth:
    """As the docstring of `Sampler` has it."""

    traits = SamplerTraits(identity="every 10th", is_random=False, has_replacement=False)

    def order(self, population: Population, epoch: int) -> Order:
        return Order(length=-(-population.num_frames // 10), frames_at=lambda n: n * 10)


BUILT_IN: list[Sampler] = [
    *(InOrder(), InOrder(stride=3), Uniform(seed=2), Uniform(over="seconds"), Permutation(seed=2)),
    *(Permutation(over=(1.0, 3.0)), Bursts(frames_per_burst=3, lanes=4)),
    *(RandomClips(num_frames=3, stride=2), RandomClips(num_frames=16, boundary="wrap")),
    *(UniformClips(num_clips=2, num_frames=4), EveryTenth()),
]


@pytest.mark.parametrize("sampler", BUILT_IN, ids=lambda each: each.traits.identity)
def test_traits_say_what_orders_show(sampler):
    timed = Population.of([np.array([5, 9, 2]), np.array([30])], [np.ones(16), np.ones(30)])
    population = timed if sampler.traits.needs_durations else POPULATION
    sampler = adapted(sampler, USE)
    orders = [sampler.order(population, epoch) for epoch in (0, 1)]
    check_order(orders[0], sampler, population)
    traits = sampler.traits
    first, second = (order[:] for order in orders)
    assert traits.is_random == (not np.array_equal(first, second))
    assert first.shape[1:] == (() if traits.num_frames is None else (traits.num_frames,))
    if traits.num_frames is None and not traits.has_replacement and not hasattr(sampler, "over"):
        assert len(set(first.tolist())) == len(first)
    if traits.seed is not None:
        use = replace(USE, seed=traits.seed + 1)
        if traits.seed:
            with pytest.raises(ConfigError, match="leave out one of the two"):
                adapted(sampler, use)
        other = adapted(replace(sampler, seed=0), use)
        assert other.traits.seed == traits.seed + 1
        assert other.traits.identity != traits.identity
        assert not np.array_equal(other.order(population, 0)[:], first)


@pytest.mark.parametrize("sampler", [each for each in BUILT_IN if each.traits.is_random], ids=repr)
def test_what_is_random_takes_a_seed(sampler):
    assert isinstance(sampler, AdaptableSampler)


def test_a_plain_class_with_two_members_is_a_sampler():
    assert adapted(sampler := EveryTenth(), USE) is sampler
    assert sampler.order(POPULATION, 0)[:].tolist() == [0, 10, 20, 30, 40]


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({}, "Mine is no sampler: it has no `traits` and no `order`; give one such as Uniform"),
        ({"order": EveryTenth.order}, "it has no `traits`; give"),
        ({"traits": TRAITS}, "it has no `order`; give"),
        ({"traits": TRAITS, "order": 3}, "`order` of Mine must be a method"),
        ({"traits": lambda self: TRAITS, "order": 3}, "must be SamplerTraits, got method; a prop"),
        ({"traits": {"identity": "mine"}, "order": 3}, "must be SamplerTraits, got dict"),
    ],
    ids=["no member", "no traits", "no order", "an order of 3", "a method", "a dict"],
)
def test_what_lacks_something_is_refused_by_name(members, said):
    with pytest.raises(ConfigError, match=said):
        adapted(type("Mine", (), members)(), USE)


def test_a_class_in_place_of_a_sampler_is_refused():
    with pytest.raises(ConfigError, match=r"Uniform is a class; call it: Uniform\(\.\.\.\)"):
        adapted(Uniform, USE)


@pytest.mark.parametrize("asked", [0, 7])
def test_a_seed_is_refused_by_a_random_sampler_that_takes_none(asked):
    class Mine(EveryTenth):
        traits = replace(TRAITS, is_random=True)

    use = replace(USE, seed=asked)
    with pytest.raises(ConfigError, match=f"seed={asked} was asked for, and Mine takes none"):
        adapted(Mine(), use)
    assert isinstance(adapted(EveryTenth(), use), EveryTenth)
    Mine.traits = replace(TRAITS, is_random=True, seed=asked)
    assert isinstance(adapted(Mine(), use), Mine)


@pytest.mark.parametrize("identity", ["", None, repr(object())], ids=["", "None", "address"])
def test_an_identity_is_the_same_in_the_next_run(identity):
    with pytest.raises(ConfigError, match="a text that is the same in the next run, got"):
        replace(TRAITS, identity=identity)


@pytest.mark.parametrize("name", ["num_frames", "frames_needed", "seed"])
def test_counts_are_integers(name):
    with pytest.raises(ConfigError, match=f"{name} must be an integer >= [01], got 1.5"):
        replace(TRAITS, **{name: 1.5})


@pytest.mark.parametrize(
    ("order", "traits", "said"),
    [
        ([1, 2], TRAITS, "Mine.order must return an Order, got list"),
        (Order(length=0, frames_at=lambda n: n), TRAITS, "no sample in an epoch"),
        (Order(length=3, frames_at=lambda n: n / 2), TRAITS, "samples frames, .* float64"),
        (
            Order(length=3, frames_at=lambda n: n[:, None] + np.arange(4)),
            TRAITS,
            r"samples frames, so one slot is int64 \[1\]; its order gives int64 \[1, 4\]",
        ),
        (
            Order(length=3, frames_at=lambda n: n),
            replace(TRAITS, num_frames=4),
            r"samples clips, so one slot is int64 \[1, 4\]; its order gives int64 \[1\]; see",
        ),
        (Order(length=3, frames_at=lambda n: n + 46), TRAITS, "gives frame 46; .* below 46"),
        (Order(length=3, frames_at=lambda n: n - 1), TRAITS, "gives frame -1;"),
    ],
)
def test_an_order_that_is_not_what_its_sampler_says_is_refused(order, traits, said):
    mine = type("Mine", (), {"traits": traits})()
    with pytest.raises(ConfigError, match=said):
        check_order(order, mine, POPULATION)


KINDS = {
    "Uniform": lambda weights: Uniform(over=weights),
    "Permutation": lambda weights: Permutation(over=weights),
    "RandomClips": lambda weights: RandomClips(num_frames=2, weights=weights),
    "SpreadClips": lambda weights: SpreadClips(num_segments=2, weights=weights),
}
OPENED = SamplerUse(videos=np.array([0, 2, 3]), videos_given=4, paths=("a.mp4", "c.mp4", "d.mp4"))
BY_PATH = {"a.mp4": 1.0, "c.mp4": 0.0, "d.mp4": 2.5, "elsewhere.mp4": 9.0}

kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


def kept(sampler):
    return sampler.over if isinstance(sampler, Uniform | Permutation) else sampler.weights


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
    assert kept(adapted(kind(weights), OPENED)) == (1.0, 0.0, 2.5)


@kinds
def test_whole_numbers_may_be_weights(kind):
    counts = np.bincount([0, 0, 1, 2, 2, 2, 3])
    assert kept(kind(counts)) == (2.0, 1.0, 3.0, 1.0)


@kinds
def test_what_is_changed_later_changes_nothing(kind):
    given = dict(BY_PATH)
    sampler = kind(given)
    given["a.mp4"] = 5.0
    assert kept(adapted(sampler, OPENED)) == (1.0, 0.0, 2.5)


@kinds
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], "at least 0 and not all 0, got \\[\\]"),
        ({}, "not all 0, got \\[\\]"),
        ([[1.0], [2.0]], r"must be numbers, one for each video, got \[2, 1\] values"),
        ([[1.0], [2.0, 3.0]], "must be numbers, one for each video"),
        ([0, 0], "weights must be finite, at least 0 and not all 0, got"),
        ({"a.mp4": 0}, "not all 0"),
        ([1, -2], "not all 0, got -2 for number 1"),
        ([1, float("nan")], "got nan for number 1"),
        ([1e308, 1e308], "must be finite"),
        ({"a.mp4": 1, "b.mp4": -3}, r"got -3 for b\.mp4"),
        ({"a.mp4": "much"}, "each of weights must be a finite number"),
        ([True, False], "each of weights must be a finite number"),
        ([None, 1], "each of weights must be a finite number"),
        ({0: 1.0}, "weights must be by path, got 0"),
        ({"a.mp4": 1, Path("a.mp4"): 2}, "name a path twice"),
        (3.0, r"weights must be numbers, .* or a mapping from paths to numbers, got '3\.0'"),
    ],
    ids=str,
)
def test_what_are_no_weights_is_refused(kind, weights, message):
    with pytest.raises(ConfigError, match=message) as caught:
        kind(weights)
    assert "\n" not in str(caught.value)


@kinds
def test_weights_that_do_not_fit_the_videos_are_refused(kind):
    missing = {"a.mp4": 1.0, "x/d.mp4": 1.0}
    message = r"none for c\.mp4 \(and 1 more videos\); .* as it was given; .*: a\.mp4, x/d\.mp4"
    with pytest.raises(ConfigError, match=message):
        adapted(kind(missing), OPENED)
    with pytest.raises(ConfigError, match="needed for each of 4 videos or rows, got 2"):
        adapted(kind((1.0, 2.0)), OPENED)
    with pytest.raises(ConfigError, match="weights are 0 for all 3 videos that could be opened"):
        adapted(kind((0.0, 1.0, 0.0, 0.0)), OPENED)
    nameless = SamplerUse(videos=np.arange(3), videos_given=3)
    with pytest.raises(ConfigError, match="by path, and the paths of the videos are not known"):
        adapted(kind(BY_PATH), nameless)


@pytest.mark.parametrize("kind", list(KINDS)[:3])
def test_without_a_loader_paths_say_nothing(kind):
    population = Population.of([np.array([4]), np.array([4])])
    with pytest.raises(ConfigError, match="a mapping of weights is for a loader"):
        KINDS[kind]({"a.mp4": 1.0}).order(population, 0)
    with pytest.raises(ConfigError, match="one weight is needed for each of 2 videos or rows"):
        KINDS[kind]((1.0, 2.0, 3.0)).order(population, 0)
