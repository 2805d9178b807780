"""Slots that look uniform and are not; each must be rejected by the tests that ours pass.

Every one returns the frame ids of independent slots, int64 [n]: one slot of each of n streams.
"""

import numpy as np

from headrace.sampling.frames import Permutation
from headrace.sampling.population import Population

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
