"""Every slot of every sampler has the law it should have; what only looks like it is told apart.

Seeds are fixed, and the level of the tests is 1e-9: they fail when the code changes, not by chance.
"""

import numpy as np
import pytest

from headrace import Bursts, Permutation, Population, RandomClips, Uniform
from sampling.kit import binomial_bounds, dkw_threshold, faults, g_threshold, share, uneven

SIZE = 10
"""Frames in a burst."""


def cut_at_video_end(population: Population, n: int, rng) -> np.ndarray:
    """A seek to a uniform frame, then a run that stops where the video does: starts come less."""
    first = rng.integers(population.num_frames, size=(n, 1))
    frames = first + np.arange(SIZE)
    end = population.video_start[population.video_of(first) + 1]
    return one_in_stream(frames, frames < end, rng)


def start_early_enough(population: Population, n: int, rng) -> np.ndarray:
    """A start uniform among those that leave room for the burst: both ends come less."""
    video = population.video_of(rng.integers(population.num_frames, size=n))
    start = rng.integers(population.frames_per_video[video] - SIZE + 1)
    return population.frame_ids(video, start + rng.integers(SIZE, size=n))


def snapped_to_keyframe(population: Population, n: int, rng) -> np.ndarray:
    """A seek that stops at the keyframe: frames deep in a GOP never come."""
    gop = population.gop_of(rng.integers(population.num_frames, size=n))
    step = rng.integers(np.minimum(SIZE, population.gop_lengths[gop]))
    return population.gop_start[gop] + step


def uniform_over_gops(population: Population, n: int, rng) -> np.ndarray:
    """Any GOP alike, then a uniform frame of it: frames of long GOPs come less."""
    gop = rng.integers(population.num_gops, size=n)
    return population.gop_start[gop] + rng.integers(population.gop_lengths[gop])


def without_leading_frames(population: Population, n: int, rng) -> np.ndarray:
    """Frames that cannot be decoded after a seek into an open GOP are left out."""
    frames = rng.integers(population.num_frames, size=(n, 1))
    step = frames - population.gop_start[population.gop_of(frames)]
    return one_in_stream(frames, step != 1, rng)


def first_ready(population: Population, n: int, rng) -> np.ndarray:
    """Of 4 readers the one that decoded least delivers first: frames near keyframes come first."""
    frames = rng.integers(population.num_frames, size=(n, 4))
    work = frames - population.gop_start[population.gop_of(frames)]
    return frames[np.arange(n), work.argmin(1)]


def without_rotation(population: Population, n: int, rng) -> np.ndarray:
    """Bursts of unequal size, shuffled, read from the first on: short ones come first too often."""
    cuts = np.concatenate([np.arange(first, stop, SIZE) for first, stop in gop_ranges(population)])
    return rng.choice(cuts, n)


def same_epoch_again(population: Population, n: int, rng) -> np.ndarray:
    """A seed that forgets the epoch: each begins with the same frame."""
    return np.repeat(Permutation(seed=3).order(population, 0)[:1], n)


def modulo(population: Population, n: int, rng) -> np.ndarray:
    """A random word modulo the number of frames, which is not much smaller: low ones come twice."""
    return rng.integers(1024, size=n) % population.num_frames


MUTANTS = [
    *(cut_at_video_end, start_early_enough, snapped_to_keyframe, uniform_over_gops),
    *(without_leading_frames, first_ready, without_rotation, same_epoch_again),
    modulo,
]


def gop_ranges(population: Population) -> zip:
    return zip(population.gop_start[:-1], population.gop_start[1:], strict=True)


def one_in_stream(frames, is_delivered, rng) -> np.ndarray:
    """A frame of each row; a row comes the more often the more of it is delivered."""
    stream = frames[is_delivered]
    return stream[rng.integers(len(stream), size=len(frames))]


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


def test_thresholds_for_20000_draws_in_50_cells():
    assert g_threshold(50) == pytest.approx(217.6, abs=0.05)
    assert binomial_bounds(20_000, 1 / 50, 1e-9 / 50) == (275, 540)
    assert dkw_threshold(20_000) == pytest.approx(0.0231, abs=0.00005)


def test_uniform_draws_of_another_generator_have_no_faults():
    population = uneven()
    total = population.num_frames
    rng = np.random.default_rng(11)
    for _ in range(50):
        draws = rng.integers(total, size=4000)
        assert faults(draws, population, np.full(total, 1 / total)) == []
