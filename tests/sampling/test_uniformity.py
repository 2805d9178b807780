"""Every sampler of frames is uniform in every slot; what only looks like it is told apart.

Seeds are fixed, and the level of the tests is 1e-9: they fail when the code changes, not by chance.
"""

import numpy as np
import pytest

from headrace.sampling.bursts import Bursts
from headrace.sampling.clips import RandomClips
from headrace.sampling.frames import Permutation, Uniform, Weighted
from headrace.sampling.population import Population
from sampling.checks import faults
from sampling.mutants import MUTANTS
from sampling.populations import uneven

DRAWS = 6000


def at_slots(sampler, population: Population, shares, epochs: int = DRAWS) -> np.ndarray:
    """What each of a few slots holds over many epochs: int64 [epochs, slots]."""
    length = len(sampler.order(population, 0))
    slots = np.array([int(share * (length - 1)) for share in shares])
    return np.array([sampler.order(population, epoch).at(slots) for epoch in range(epochs)])


@pytest.mark.parametrize("sampler", [Permutation(seed=1), Bursts(frames_per_burst=6, lanes=32)])
def test_first_middle_and_last_slot_of_an_epoch_are_uniform_over_epochs(sampler):
    population = uneven()
    held = at_slots(sampler, population, (0, 0.5, 1))
    assert [faults(column, population) for column in held.T] == [[], [], []]


def test_slots_of_one_epoch_are_uniform_when_drawn_with_replacement():
    population = uneven()
    order = [Uniform(seed=2).order(population, epoch)[:] for epoch in range(40)]
    assert faults(np.concatenate(order), population) == []


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_sampler_is_told_from_a_uniform_one(mutant):
    population = uneven()
    assert faults(mutant(population, DRAWS, np.random.default_rng(5)), population)


def test_frames_are_drawn_as_long_as_they_are_shown():
    rng = np.random.default_rng(3)
    gops = [np.array([30, 30]), np.array([40])]
    shown = [rng.exponential(0.04, 60), np.full(40, 0.1)]
    shown[0][7] = 0
    population = Population.of(gops, shown)
    flat = np.concatenate(shown)
    draws = np.concatenate(
        [Uniform(over="seconds").order(population, epoch)[:] for epoch in range(200)]
    )
    assert faults(draws, population, flat / flat.sum()) == []
    assert faults(draws, population) != []


@pytest.mark.parametrize("sampler", [Uniform(over="videos"), Weighted(weights=(2.0,) * 12)])
def test_videos_come_alike_whatever_their_length(sampler):
    population = uneven()
    per_frame = 1 / population.num_videos / population.frames_per_video
    draws = np.concatenate([sampler.order(population, epoch)[:] for epoch in range(40)])
    assert faults(draws, population, np.repeat(per_frame, population.frames_per_video)) == []
    assert faults(draws, population) != []


def test_a_video_without_weight_never_comes():
    population = uneven()
    weights = (0.0, 1.0) * 5 + (1.0, 0.0)
    order = Weighted(weights=weights).order(population, 0)
    assert np.unique(population.video_of(order[:])).tolist() == [1, 3, 5, 7, 9, 10]


@pytest.mark.parametrize("each_once", ["starts", "videos"])
def test_clips_start_uniformly(each_once):
    population = uneven()
    sampler = RandomClips(num_frames=4, stride=3, each_once=each_once, boundary="wrap")
    starts = at_slots(sampler, population, (0, 1))[:, :, 0]
    per_video = 1 / population.num_videos / population.frames_per_video
    probability = np.repeat(per_video, population.frames_per_video)
    expected = None if each_once == "starts" else probability
    assert [faults(column, population, expected) for column in starts.T] == [[], []]
