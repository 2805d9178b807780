"""Clips at random places, and evenly spaced."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.boundary import clip_indices
from headrace.sampling.clips import RandomClips, UniformClips
from headrace.sampling.population import Population
from sampling.populations import populations

FOUR = Population.of([np.array([20]), np.array([9, 3]), np.array([30]), np.array([11])])


@given(
    population=populations(),
    num_frames=st.integers(1, 9),
    stride=st.integers(1, 4),
    boundary=st.sampled_from(["repeat_last", "wrap"]),
    each_once=st.sampled_from(["videos", "starts"]),
)
def test_a_clip_is_what_clip_indices_says(population, num_frames, stride, boundary, each_once):
    sampler = RandomClips(
        num_frames=num_frames, stride=stride, boundary=boundary, each_once=each_once
    )
    for clip in sampler.order(population, 0)[:]:
        video, index = population.locate(clip)
        assert len(np.unique(video)) == 1
        total = int(population.frames_per_video[video[0]])
        expected = clip_indices(total, int(index[0]), num_frames, stride, boundary)
        assert index.tolist() == expected.tolist()


def test_each_video_comes_once():
    clips = RandomClips(num_frames=4, stride=2).order(FOUR, 0)[:]
    assert sorted(FOUR.video_of(clips[:, 0]).tolist()) == [0, 1, 2, 3]


def test_each_start_comes_once():
    clips = RandomClips(num_frames=4, stride=3, each_once="starts").order(FOUR, 0)[:]
    starts = [FOUR.video_start[v] + k for v, n in enumerate([11, 3, 21, 2]) for k in range(n)]
    assert sorted(clips[:, 0].tolist()) == starts
    assert (np.diff(clips) == 3).all()


def test_temporal_jitter_moves_each_frame_and_keeps_their_order():
    sampler = RandomClips(num_frames=3, stride=4, temporal_jitter=2)
    clips = np.concatenate([sampler.order(FOUR, epoch)[:] for epoch in range(200)])
    assert set(np.unique(np.diff(clips))) == {2, 3, 4, 5, 6}
    _, index = FOUR.locate(clips)
    assert (FOUR.video_of(clips) == FOUR.video_of(clips[:, :1])).all()
    # The shortest video, of 11 frames, has room for one start: jitter alone moves its clips.
    shortest = index[FOUR.video_of(clips[:, 0]) == 3]
    assert [sorted(set(column)) for column in shortest.T] == [[0, 1, 2], [4, 5, 6], [8, 9, 10]]


@pytest.mark.parametrize(
    ("num_clips", "starts"),
    [
        (1, [5, 1, 10, 1]),
        (2, [2, 8, 0, 2, 5, 15, 0, 1]),
        (3, [1, 5, 9, 0, 1, 2, 3, 10, 17, 0, 1, 1]),
    ],
)
def test_uniform_clips_start_in_the_middle_of_equal_parts(num_clips, starts):
    clips = UniformClips(num_clips=num_clips, num_frames=4, stride=3).order(FOUR, 0)[:]
    video, index = FOUR.locate(clips[:, 0])
    assert video.tolist() == np.repeat(range(4), num_clips).tolist()
    assert index.tolist() == starts
    assert (np.diff(clips) == 3).all()


@pytest.mark.parametrize(
    "sampler",
    [RandomClips(num_frames=12, temporal_jitter=0), UniformClips(num_clips=2, num_frames=12)],
)
def test_a_video_that_is_too_short_is_named(sampler):
    with pytest.raises(ConfigError, match=r"needs 12 frames, video 3 has 11 \(and 0 more are"):
        sampler.order(FOUR, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_frames": 0}, "num_frames must be an integer >= 1, got 0"),
        ({"stride": 0}, "stride must be an integer >= 1, got 0"),
        (
            {"boundary": "loop"},
            "boundary must be one of error, skip, pad, repeat_last, wrap, got 'loop'",
        ),
        ({"temporal_jitter": 1}, "temporal_jitter must be at least 0 and below the stride, 1"),
        ({"temporal_jitter": -1}, "temporal_jitter must be an integer >= 0, got -1"),
        ({"each_once": "clips"}, "each_once must be one of videos, starts, got 'clips'"),
    ],
)
def test_impossible_random_clips_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        RandomClips(**{"num_frames": 4, **options})


@pytest.mark.parametrize("name", ["num_clips", "num_frames", "stride"])
def test_impossible_uniform_clips_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name} must be an integer >= 1, got 0"):
        UniformClips(**{"num_clips": 2, "num_frames": 4, name: 0})
