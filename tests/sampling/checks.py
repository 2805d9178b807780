"""Tests of uniformity that hold for any number of draws, at a level that never fails by chance.

Draws must be independent: one slot for each burst or epoch. Frame counts of whole bursts would
fail always, because their variance is that of bursts.
"""

from math import log, log1p, sqrt

import numpy as np

from headrace.sampling.population import Population

ALPHA = 1e-9


def faults(frames, population: Population, p) -> list[str]:
    """Return by which coordinates `frames`, int64 [n], are not distributed as they should be.

    `p` is the probability of each frame of the population: float64 [frames].
    """
    found = []
    for name, coordinate in coordinates(population).items():
        cell_of = np.unique(coordinate, return_inverse=True)[1]
        expected = np.bincount(cell_of, p)
        counts = np.bincount(cell_of[frames], minlength=len(expected))
        if g_statistic(counts, expected) > g_threshold(len(expected)):
            found.append(f"G by {name}")
        if not all(map(in_bounds, counts, [len(frames)] * len(counts), expected)):
            found.append(f"cells by {name}")
    if ecdf_distance(frames, p) > dkw_threshold(len(frames)):
        found.append("DKW by frame id")
    return found


def coordinates(population: Population) -> dict:
    """Where faults live: each an int64 [frames], the cell of every frame."""
    ids = np.arange(population.num_frames)
    video, index = population.locate(ids)
    gop = population.gop_of(ids)
    to_end = population.frames_per_video[video] - 1 - index
    return {
        "video": video,
        "place in GOP": np.minimum(ids - population.gop_start[gop], 9),
        "length of GOP": population.gop_lengths[gop] // 4,
        "distance to start": np.minimum(index, 9),
        "distance to end": np.minimum(to_end, 9),
        "hash": ids * 2654435761 % 2**32 >> 28,
    }


def g_statistic(counts, expected) -> float:
    """2n times the Kullback-Leibler divergence of what came from what should."""
    seen = counts > 0
    return 2 * float(counts[seen] @ np.log(counts[seen] / counts.sum() / expected[seen]))


def g_threshold(cells: int, alpha: float = ALPHA) -> float:
    """Bound on G that uniform draws exceed with probability <= alpha: Agrawal, arXiv:1904.02291.

    exp(-x) (e x / k)^k with k = cells - 1 and G = 2x, for any number of draws.
    """
    k = cells - 1
    low, high = float(k), 1e4
    for _ in range(100):
        x = (low + high) / 2
        low, high = (x, high) if -x + k * (1 + log(x / k)) > log(alpha) else (low, x)
    return 2 * high


def in_bounds(count: int, draws: int, p: float, alpha: float = ALPHA / 20) -> bool:
    """Whether a binomial count is inside its exact two-sided bounds."""
    low, high = binomial_bounds(draws, p, alpha)
    return low <= count <= high


def binomial_bounds(draws: int, p: float, alpha: float) -> tuple[int, int]:
    """Least and greatest count of which each further one has a tail below alpha / 2."""
    k = np.arange(draws + 1)
    factorial = np.concatenate([[0], np.cumsum(np.log(np.arange(1, draws + 1)))])
    choose = factorial[-1] - factorial - factorial[::-1]
    pmf = np.exp(choose + k * log(p) + (draws - k) * log1p(-p))
    low = np.searchsorted(np.cumsum(pmf), alpha / 2, "right")
    high = draws - np.searchsorted(np.cumsum(pmf[::-1]), alpha / 2, "right")
    return int(low), int(high)


def ecdf_distance(values, probability) -> float:
    """Greatest distance of the cumulated frequencies from the cumulated probabilities."""
    seen = np.cumsum(np.bincount(values, minlength=len(probability))) / len(values)
    return float(np.abs(seen - np.cumsum(probability)).max())


def dkw_threshold(draws: int, alpha: float = ALPHA) -> float:
    """Bound on that distance: Dvoretzky, Kiefer, Wolfowitz; constant by Massart, 1990."""
    return sqrt(log(2 / alpha) / (2 * draws))
