"""Every slot of every sampler has the law it should have; what only looks like it is told apart.

Seeds are fixed, and the level of the tests is 1e-9: they fail when the code changes, not by chance.
"""

import numpy as np
import pytest

from headrace.sampling.bursts import Bursts
from headrace.sampling.clips import RandomClips
from headrace.sampling.frames import Permutation, Uniform
from sampling.checks import faults
from sampling.mutants import MUTANTS
from sampling.populations import share, uneven

POPULATION = uneven()
DRAWS = 2000
OVER = ["frames", "seconds", "videos", tuple(range(1, 13))]


@pytest.mark.parametrize("over", OVER)
def test_independent_draws_have_the_law_that_was_asked_for(over):
    order = [Uniform(over=over, seed=2).order(POPULATION, epoch)[:] for epoch in range(40)]
    assert faults(np.concatenate(order), POPULATION, share(POPULATION, over)) == []


@pytest.mark.parametrize(
    ("sampler", "over"),
    [
        (Bursts(frames_per_burst=6, lanes=32), "frames"),
        (RandomClips(num_frames=4, stride=3, boundary="wrap", each_once="starts"), "frames"),
        (RandomClips(num_frames=4, stride=3, boundary="wrap"), "videos"),
        *[(Permutation(over=over, seed=1), over) for over in OVER],
    ],
)
def test_first_middle_and_last_slot_of_an_epoch_have_it_over_epochs(sampler, over):
    """Of clips, their first frame."""
    last = len(sampler.order(POPULATION, 0)) - 1
    slots = np.array([0, last // 2, last])
    held = np.array([sampler.order(POPULATION, epoch).at(slots) for epoch in range(DRAWS)])
    for column in held.reshape(DRAWS, 3, -1)[:, :, 0].T:
        assert faults(column, POPULATION, share(POPULATION, over)) == []


@pytest.mark.parametrize("over", OVER[1:])
def test_what_is_uniform_over_something_else_is_told_from_uniform_over_frames(over):
    order = [Uniform(over=over, seed=2).order(POPULATION, epoch)[:] for epoch in range(40)]
    assert faults(np.concatenate(order), POPULATION, share(POPULATION, "frames"))


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_sampler_is_told_from_a_uniform_one(mutant):
    frames = mutant(POPULATION, DRAWS, np.random.default_rng(5))
    assert faults(frames, POPULATION, share(POPULATION, "frames"))
