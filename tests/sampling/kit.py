"""Populations, times and bursts made by hand, costs compared, and tests of uniformity that hold.

Draws must be independent: one slot for each burst or epoch. Frame counts of whole bursts would
fail always, because their variance is that of bursts. The level `ALPHA` never fails by chance."""

from fractions import Fraction
from itertools import pairwise
from math import log, log1p, sqrt

import numpy as np
from hypothesis import strategies as st

from headrace.sampling.decode_cost import Speed, lookahead_for
from headrace.sampling.population import FrameTimes, Population
from headrace.sampling.strategies import Budget, Noise, Strategy, compare


def uneven() -> Population:
    """12 short videos with GOPs of 3 to 20 frames, so that every kind of fault is large.

    Frames are shown for random times, and one of them for none.
    """
    rng = np.random.default_rng(7)
    gops = [rng.integers(3, 21, size) for size in rng.integers(2, 7, 12)]
    shown = [rng.exponential(0.04, lengths.sum()) for lengths in gops]
    shown[3][5] = 0
    return Population.of(gops, shown)


def populations(max_gop: int = 12, max_gops: int = 6, max_videos: int = 6):
    """Strategy: any population of up to max_videos * max_gops * max_gop frames, with durations."""
    gops = st.lists(st.integers(1, max_gop), min_size=1, max_size=max_gops)
    return st.lists(gops, min_size=1, max_size=max_videos).map(_shown)


def share(population: Population, over) -> np.ndarray:
    """float64 [frames]: the probability of each frame, from the meaning of `over` alone."""
    lengths = population.frames_per_video
    if over == "seconds":
        return np.diff(population.shown_until, prepend=0) / population.shown_until[-1]
    weights = {"frames": lengths, "videos": np.ones(len(lengths))}
    of_video = np.array(weights[over] if isinstance(over, str) else over)
    return np.repeat(of_video / of_video.sum() / lengths, lengths)


def _shown(videos: list[list[int]]) -> Population:
    """Frames are shown for 1, 2, 3, 4, 1, 2, ... seconds."""
    gops = [np.array(lengths, np.int64) for lengths in videos]
    return Population.of(gops, [1.0 + np.arange(lengths.sum()) % 4 for lengths in gops])


TIME_BASES = [Fraction(1, each) for each in (25, 1000, 15360, 90000, 10**9)]


def even(num_frames: int, rate: Fraction, time_base: Fraction, first: int = 0) -> FrameTimes:
    """The times of frames at `rate`, rounded to ticks as a container rounds them."""
    pts = [first + round(k / rate / time_base) for k in range(num_frames + 1)]
    return FrameTimes(pts=np.array(pts[:-1], np.int64), end=pts[-1], time_base=time_base)


@st.composite
def frame_times(draw) -> FrameTimes:
    """Strategy: the times of up to 30 frames, each shown for 1 ms to 0.5 s or 1 tick."""
    time_base = draw(st.sampled_from(TIME_BASES))
    longest = max(1, int(Fraction(1, 2) / time_base))
    gaps = draw(st.lists(st.integers(1, longest), min_size=1, max_size=30))
    first = draw(st.integers(0, 5 * longest))
    pts = first + np.cumsum([0, *gaps])
    return FrameTimes(pts=pts[:-1], end=int(pts[-1]), time_base=time_base)


def population_of(times: list[FrameTimes]) -> Population:
    """Videos of one GOP each."""
    return Population.of([np.array([len(each)]) for each in times], times=times)


def shown_by_hand(times: FrameTimes, index: int, seconds: Fraction) -> int | None:
    """Which frame is shown `seconds` from a frame, by `FrameTimes`'s words alone; None: none."""
    ticks = [*times.pts.tolist(), times.end]
    is_fine = ticks[-1] - ticks[0] >= 4 * len(times)
    early = max(Fraction(1, 10**6), times.time_base if is_fine else Fraction(0))
    moment = ticks[index] * times.time_base + (seconds + early if seconds else 0)
    spans = enumerate(pairwise(tick * times.time_base for tick in ticks))
    return next((k for k, (start, stop) in spans if start <= moment < stop), None)


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


SPEED = Speed(
    seconds_per_seek=0.004, seconds_per_decoded=0.002, seconds_per_delivered=0.001, workers=2
)


def compared(
    gop_lengths, *, batch_size=128, later=2000, speed=SPEED, rho=0.5, contraction=0.01, **options
) -> dict[str, Strategy]:
    """Name → strategy; bursts are called "bursts", whatever their size."""
    lengths = np.array(gop_lengths)
    most = 4 * int(lengths.sum())
    ahead, once = (
        max(batch_size, min(most, lookahead_for(lengths, max(1, later), each_once=each_once)))
        for each_once in (False, True)
    )
    windows = {"later_frames": later, "lookahead": ahead, "lookahead_once": once}
    budget = Budget(batch_size=batch_size, frame_bytes=3000, **windows)
    noise = Noise(rho=rho, contraction=contraction)
    rows = compare(lengths, budget, speed, noise=noise, **options)
    return {"bursts" if row.name.startswith("bursts") else row.name: row for row in rows}


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
        bounds = np.array([binomial_bounds(len(frames), each, ALPHA / 20) for each in expected])
        if ((counts < bounds[:, 0]) | (counts > bounds[:, 1])).any():
            found.append(f"cells by {name}")
    seen = np.cumsum(np.bincount(frames, minlength=len(p))) / len(frames)
    if np.abs(seen - np.cumsum(p)).max() > dkw_threshold(len(frames)):
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


def is_uniform(counts) -> bool:
    """Whether counts are those of equally frequent cells."""
    return g_statistic(counts, np.full(len(counts), 1 / len(counts))) <= g_threshold(len(counts))


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


def binomial_bounds(draws: int, p: float, alpha: float) -> tuple[int, int]:
    """Least and greatest count of which each further one has a tail below alpha / 2."""
    k = np.arange(draws + 1)
    factorial = np.concatenate([[0], np.cumsum(np.log(np.arange(1, draws + 1)))])
    choose = factorial[-1] - factorial - factorial[::-1]
    pmf = np.exp(choose + k * log(p) + (draws - k) * log1p(-p))
    low = np.searchsorted(np.cumsum(pmf), alpha / 2, "right")
    high = draws - np.searchsorted(np.cumsum(pmf[::-1]), alpha / 2, "right")
    return int(low), int(high)


def dkw_threshold(draws: int, alpha: float = ALPHA) -> float:
    """Bound on the distance of cumulated frequencies from cumulated probabilities.

    Dvoretzky, Kiefer, Wolfowitz; constant by Massart, 1990.
    """
    return sqrt(log(2 / alpha) / (2 * draws))
