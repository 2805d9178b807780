"""Frames of many videos under one numbering; rows are sampled as if each were a video."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace import Population, RandomClips, SequentialFrames, ShuffledFrames, UniformFrames
from headrace.sampling.derived_samplers import Rows, RowSampler
from headrace.sampling.frame_samplers import Bursts
from sampling.kit import faults, populations, uneven

TWO = Population.of([np.array([3, 2]), np.array([4])])


def test_frames_are_numbered_through_all_videos():
    assert (TWO.num_frames, TWO.num_videos, TWO.num_gops) == (9, 2, 3)
    assert TWO.gop_start.tolist() == [0, 3, 5, 9]
    assert TWO.gop_lengths.tolist() == [3, 2, 4]
    assert TWO.frames_per_video.tolist() == [5, 4]
    ids = np.arange(9)
    assert TWO.video_of(ids).tolist() == [0] * 5 + [1] * 4
    assert TWO.gop_of(ids).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    clips = np.array([[0, 4], [5, 8]])  # look-ups keep their shape
    assert TWO.video_of(clips).tolist() == [[0, 0], [1, 1]]
    assert [part.tolist() for part in TWO.locate(clips)] == [[[0, 0], [1, 1]], [[0, 4], [0, 3]]]


@given(population=populations())
def test_a_frame_is_found_by_video_and_index(population):
    ids = np.arange(population.num_frames)
    video, index = population.locate(ids)
    assert population.frame_ids(video, index).tolist() == ids.tolist()
    assert (index >= 0).all()
    assert (index < population.frames_per_video[video]).all()
    assert np.bincount(population.gop_of(ids)).tolist() == population.gop_lengths.tolist()


def test_a_hundred_million_frames_hold_no_array_of_frames():
    lengths = np.full(40, 250)
    population = Population.of([lengths] * 10_000)
    held = population.gop_start.nbytes + population.video_start.nbytes
    assert population.num_frames == 10**8
    assert held < 8 * (400_000 + 10_000 + 3)
    assert [int(part) for part in population.locate(np.int64(99_999_999))] == [9_999, 9_999]


def test_videos_are_shown_one_after_the_other():
    population = Population.of([np.array([2]), np.array([1])], [np.array([0.5, 0]), np.array([2])])
    assert population.shown_until is not None
    assert population.shown_until.tolist() == [0.5, 0.5, 2.5]


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
    bursts = [Bursts(frames_per_burst=1, lanes=1)] * (rows.population.num_frames > 1)
    for sampler in (SequentialFrames(), ShuffledFrames(seed=5), *bursts):
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


def test_too_short_rows_are_named_by_position():
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
    rows = rows_of(population, parts)
    samplers = [sampler_of(UniformFrames(seed=seed), rows) for seed in range(60)]
    draws = np.concatenate([sampler.order(population, 0)[:] for sampler in samplers])
    assert len(draws) == 60 * share.sum()
    assert faults(draws, population, share / share.sum()) == []
    whole = np.full(population.num_frames, 1 / population.num_frames)
    assert faults(draws, population, whole) != []


def test_other_rows_have_another_identity():
    population = Population.of([np.array([20])])
    parts = [[(0, 0, 10)], [(0, 0, 11)], [(0, 1, 11)], [(0, 0, 10), (0, 0, 10)]]
    traits = [sampler_of(UniformFrames(), rows_of(population, each)).traits for each in parts]
    assert len({each.identity for each in traits}) == len(parts)
