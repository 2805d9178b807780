"""The bursts of `Bursts`, cut frame by frame: what its look-ups must agree with."""

import numpy as np

from headrace.sampling.population import Population


def cut(population: Population, size: int) -> list[list[int]]:
    """All bursts as lists of frame ids."""
    bursts, left_over = [], []
    for first, stop in zip(population.gop_start[:-1], population.gop_start[1:], strict=True):
        inside = first + (stop - first) % size
        left_over += range(first, inside)
        bursts += [list(range(at, at + size)) for at in range(inside, stop, size)]
    return bursts + [left_over[at : at + size] for at in range(0, len(left_over), size)]


def burst_of(population: Population, size: int) -> np.ndarray:
    """int64 [frames]: the burst of every frame."""
    number = np.empty(population.num_frames, np.int64)
    for burst, frames in enumerate(cut(population, size)):
        number[frames] = burst
    return number


def decoding(population: Population, size: int) -> tuple[int, int]:
    """(frames decoded, seeks) when each burst is decoded by itself, GOP after GOP."""
    decoded = seeks = 0
    for burst in cut(population, size):
        frames = np.array(burst)
        gop = population.gop_of(frames)
        for each in np.unique(gop):
            decoded += frames[gop == each].max() - population.gop_start[each] + 1
            seeks += 1
    return int(decoded), seeks
