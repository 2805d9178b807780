"""What a sampler must say of itself; one that does not is refused by name."""

from dataclasses import replace

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.sampling.bursts import Bursts
from headrace.sampling.clips import RandomClips, UniformClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.sampling.order import Order
from headrace.sampling.population import Population
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
        other = adapted(sampler, replace(USE, seed=traits.seed + 1))
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
