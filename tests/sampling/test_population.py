"""Frames of many videos under one numbering."""

import numpy as np
import pytest
from hypothesis import given

from headrace.errors import ConfigError
from headrace.sampling.population import Population
from sampling.populations import populations

TWO = Population.of([np.array([3, 2]), np.array([4])])


def test_frames_are_numbered_through_all_videos():
    assert (TWO.num_frames, TWO.num_videos, TWO.num_gops) == (9, 2, 3)
    assert TWO.gop_start.tolist() == [0, 3, 5, 9]
    assert TWO.gop_lengths.tolist() == [3, 2, 4]
    assert TWO.frames_per_video.tolist() == [5, 4]
    ids = np.arange(9)
    assert TWO.video_of(ids).tolist() == [0] * 5 + [1] * 4
    assert TWO.gop_of(ids).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert [part.tolist() for part in TWO.locate(np.array([4, 5]))] == [[0, 1], [4, 0]]


@given(population=populations())
def test_a_frame_is_found_by_video_and_index(population):
    ids = np.arange(population.num_frames)
    video, index = population.locate(ids)
    assert population.frame_ids(video, index).tolist() == ids.tolist()
    assert (index >= 0).all()
    assert (index < population.frames_per_video[video]).all()
    assert np.bincount(population.gop_of(ids)).tolist() == population.gop_lengths.tolist()


def test_look_ups_keep_the_shape_of_clips():
    clips = np.array([[0, 4], [5, 8]])
    assert TWO.video_of(clips).tolist() == [[0, 0], [1, 1]]
    assert TWO.locate(clips)[1].tolist() == [[0, 4], [0, 3]]


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


@pytest.mark.parametrize(
    ("gops", "durations", "message"),
    [
        ([], None, "at least one video is needed"),
        ([[3], []], None, r"video 1 has GOPs of \[\] frames"),
        ([[3], [2, 0]], None, r"video 1 has GOPs of \[2, 0\] frames"),
        ([[3]], [[1.0, 1.0]], r"the videos have \[3\] frames, the arrays \[2\] values"),
        ([[1]], [[-1.0]], "finite, at least 0 and not all 0; they range from -1.0 to -1.0"),
        ([[1]], [[float("nan")]], "must be finite"),
        ([[2]], [[0.0, 0.0]], "not all 0"),
    ],
)
def test_what_cannot_be_sampled_from_is_refused(gops, durations, message):
    with pytest.raises(ConfigError, match=message):
        Population.of(
            [np.array(lengths, np.int64) for lengths in gops],
            durations and [np.array(each, np.float64) for each in durations],
        )
