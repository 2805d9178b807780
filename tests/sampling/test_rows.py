"""Rows are sampled as if each were a video."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.sampling.bursts import Bursts
from headrace.sampling.clips import RandomClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.sampling.population import Population
from headrace.sampling.rows import Rows, RowSampler
from sampling import checks
from sampling.populations import populations, uneven


def rows_of(population: Population, parts: list[tuple[int, int, int]]) -> Rows:
    """Parts (video, first, stop) of a population, of one GOP each; every second one is known."""
    lengths = [np.array([stop - first]) for _, first, stop in parts]
    of_rows = Population.of(lengths)
    return Rows(
        number=np.arange(len(parts)) * 2,
        first=np.array([population.video_start[video] + first for video, first, _ in parts]),
        population=of_rows,
        timed=lambda: of_rows,
    )


@st.composite
def parts_of(draw):
    """Strategy: a population, and up to 6 parts of its videos, which may overlap."""
    population = draw(populations())
    parts = []
    for _ in range(draw(st.integers(1, 6))):
        video = draw(st.integers(0, population.num_videos - 1))
        length = int(population.frames_per_video[video])
        first = draw(st.integers(0, length - 1))
        parts.append((video, first, draw(st.integers(first + 1, length))))
    return population, parts


def sampler_of(sampler, rows: Rows) -> RowSampler:
    return RowSampler(sampler=sampler, rows=rows, population=rows.population)


@given(drawn=parts_of(), epoch=st.integers(0, 2))
def test_each_frame_of_each_row_comes_once_with_its_row(drawn, epoch):
    population, parts = drawn
    rows = rows_of(population, parts)
    for sampler in (InOrder(), Permutation(seed=5), Bursts(frames_per_burst=1, lanes=1)):
        if isinstance(sampler, Bursts) and rows.population.num_frames < 2:
            continue
        order = sampler_of(sampler, rows).order(population, epoch)
        video, index = population.locate(order[:])
        row = order.rows_at(np.arange(len(order)))
        came = sorted(zip(row.tolist(), video.tolist(), index.tolist(), strict=True))
        assert came == sorted(
            (2 * number, video, index)
            for number, (video, first, stop) in enumerate(parts)
            for index in range(first, stop)
        )


@given(drawn=parts_of(), num_frames=st.integers(1, 4))
def test_a_clip_lies_in_its_row(drawn, num_frames):
    population, parts = drawn
    clips = RandomClips(num_frames=num_frames, boundary="pad", each_once="starts")
    order = sampler_of(clips, rows_of(population, parts)).order(population, 0)
    slots = np.arange(len(order))
    for row, clip in zip(order.rows_at(slots).tolist(), order.at(slots), strict=True):
        video, first, stop = parts[row // 2]
        assert (population.video_of(clip) == video).all()
        index = population.locate(clip)[1]
        assert index.min() >= first
        assert index.max() < stop


def test_rows_that_are_too_short_are_told_by_their_places():
    population = Population.of([np.array([20])])
    rows = rows_of(population, [(0, 0, 10), (0, 3, 5), (0, 8, 20)])
    clips = RandomClips(num_frames=4, boundary="skip")
    order = sampler_of(clips, rows).order(population, 0)
    assert order.too_short == (2,)
    assert sorted(order.rows_at(np.arange(2)).tolist()) == [0, 4]


def test_frames_are_uniform_over_the_rows():
    """Rows overlap: what lies in two of them comes twice as often."""
    population = uneven()
    lengths = population.frames_per_video
    parts = [(v, 0, int(n)) for v, n in enumerate(lengths)] + [(3, 2, int(lengths[3])), (7, 0, 5)]
    share = np.zeros(population.num_frames)
    for video, first, stop in parts:
        share[population.video_start[video] + np.arange(first, stop)] += 1
    order = sampler_of(Uniform(), rows_of(population, parts)).order(population, 0)
    draws = [
        sampler_of(Uniform(seed=s), rows_of(population, parts)).order(population, 0)[:]
        for s in range(60)
    ]
    assert len(order) == share.sum()
    assert checks.faults(np.concatenate(draws), population, share / share.sum()) == []
    whole = np.full(population.num_frames, 1 / population.num_frames)
    assert checks.faults(np.concatenate(draws), population, whole) != []


def test_other_rows_have_another_identity():
    population = Population.of([np.array([20])])
    parts = [[(0, 0, 10)], [(0, 0, 11)], [(0, 1, 11)], [(0, 0, 10), (0, 0, 10)]]
    traits = [sampler_of(Uniform(), rows_of(population, each)).traits for each in parts]
    assert len({each.identity for each in traits}) == len(parts)
