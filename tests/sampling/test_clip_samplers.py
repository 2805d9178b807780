"""Clips at random places and evenly spaced, by frames and by time, and what a short video gives."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigError, Population, RandomClips, UniformClips
from headrace.sampling.clip_shape import clip_indices, clip_span
from sampling.kit import even, frame_times, population_of, populations, shown_by_hand


@pytest.mark.parametrize(
    ("total", "start", "num_frames", "stride", "boundary", "expected"),
    [
        (100, 0, 4, 2, "error", [0, 2, 4, 6]),
        (7, 0, 4, 2, "error", [0, 2, 4, 6]),
        (6, 0, 4, 2, "repeat_last", [0, 2, 4, 4]),
        (6, 1, 5, 2, "wrap", [1, 3, 5, 1, 3]),
        (5, 4, 3, 1, "repeat_last", [4, 4, 4]),
        (5, 4, 3, 1, "wrap", [4, 4, 4]),
        (1, 0, 1, 9, "error", [0]),
    ],
)
def test_a_clip_takes_these_frames(total, start, num_frames, stride, boundary, expected):
    assert clip_indices(total, start, num_frames, stride, boundary).tolist() == expected


@given(
    total=st.integers(1, 50),
    start=st.integers(0, 49),
    num_frames=st.integers(1, 20),
    stride=st.integers(1, 9),
    boundary=st.sampled_from(["repeat_last", "wrap"]),
)
def test_every_index_exists_and_lies_on_the_stride(total, start, num_frames, stride, boundary):
    start %= total
    indices = clip_indices(total, start, num_frames, stride, boundary)
    assert len(indices) == num_frames
    assert indices[0] == start
    assert ((indices >= start) & (indices < total)).all()
    assert ((indices - start) % stride == 0).all()
    if start + clip_span(num_frames, stride) <= total:
        assert np.array_equal(indices, clip_indices(total, start, num_frames, stride, "error"))


FOUR = Population.of([np.array([20]), np.array([9, 3]), np.array([30]), np.array([11])])


@given(
    population=populations(),
    num_frames=st.integers(1, 9),
    stride=st.integers(1, 4),
    boundary=st.sampled_from(["repeat_last", "wrap"]),
    each_once=st.sampled_from(["videos", "starts"]),
)
def test_a_clip_has_the_frames_of_clip_indices(population, num_frames, stride, boundary, each_once):
    sampler = RandomClips(
        num_frames=num_frames, stride=stride, boundary=boundary, each_once=each_once
    )
    for clip in sampler.order(population, 0)[:]:
        video, index = population.locate(clip)
        assert len(np.unique(video)) == 1
        total = int(population.frames_per_video[video[0]])
        expected = clip_indices(total, int(index[0]), num_frames, stride, boundary)
        assert index.tolist() == expected.tolist()


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


RATES = [15, Fraction(24000, 1001), 25, 30, 50, 60]
FILES = [even(120, Fraction(rate), Fraction(1, 90000)) for rate in RATES]


@pytest.mark.parametrize(
    "sampler",
    [
        RandomClips(num_frames=8, fps=8, each_once="starts"),
        UniformClips(num_clips=3, num_frames=8, fps=8),
    ],
)
def test_a_clip_is_as_long_in_files_of_any_rate(sampler):
    population = population_of(FILES)
    clips = sampler.order(population, 0)[:]
    video, index = population.locate(clips)
    assert set(video[:, 0].tolist()) == set(range(len(FILES)))
    for v, row in zip(video[:, 0].tolist(), index, strict=True):
        seconds = FILES[v].pts[row] / 90000
        late = seconds - seconds[0] - np.arange(8) / 8
        assert (late < 1 / 90000).all()
        assert (late > -1 / RATES[v]).all()


@given(
    times=st.lists(frame_times(), min_size=1, max_size=4),
    num_frames=st.integers(1, 6),
    fps=st.sampled_from([1, 8, 12.5, Fraction(30000, 1001), "24000/1001"]),
    boundary=st.sampled_from(["skip", "pad", "repeat_last", "wrap"]),
)
def test_a_clip_by_time_matches_the_documentation(times, num_frames, fps, boundary):
    population = population_of(times)
    sampler = RandomClips(num_frames=num_frames, fps=fps, boundary=boundary, each_once="starts")
    last = (num_frames - 1) / Fraction(str(fps))
    if boundary == "skip" and not any(shown_by_hand(each, 0, last) is not None for each in times):
        with pytest.raises(ConfigError, match="ask for fewer frames"):
            sampler.order(population, 0)
        return
    order = sampler.order(population, 0)
    clips, slots = order[:], np.arange(len(order))
    pads = np.zeros(clips.shape, bool) if order.is_pad_at is None else order.is_pad_at(slots)
    assert boundary != "skip" or not pads.any()
    for clip, pad in zip(clips, pads, strict=True):
        video, index = population.locate(clip)
        of, start = times[video[0]], int(index[0])
        assert len(set(video.tolist())) == 1
        rate = Fraction(str(fps))
        shown = [shown_by_hand(of, start, k / rate) for k in range(num_frames)]
        assert pad.tolist() == [each is None for each in shown]
        there = [each for each in shown if each is not None]
        for k, each in enumerate(shown):
            repeated = there[k % len(there)] if boundary == "wrap" else there[-1]
            assert index[k] == (repeated if each is None else each)


@given(population=populations(), num_frames=st.integers(1, 9), stride=st.integers(1, 4))
def test_videos_that_are_too_short_are_skipped_or_padded_and_others_lie_inside(
    population, num_frames, stride
):
    span = (num_frames - 1) * stride + 1
    lengths = population.frames_per_video
    short = np.flatnonzero(lengths < span).tolist()

    padded = RandomClips(num_frames=num_frames, stride=stride, boundary="pad").order(population, 0)
    assert padded.too_short == ()
    is_pad = padded.is_pad_at(np.arange(len(padded)))
    for clip, pad in zip(padded[:], is_pad, strict=True):
        video, index = population.locate(clip)
        assert pad.any() == (int(video[0]) in short)
        if pad.any():
            there = (lengths[video[0]] - 1) // stride + 1
            assert pad.tolist() == [k >= there for k in range(num_frames)]
            assert index.tolist() == [min(k, there - 1) * stride for k in range(num_frames)]

    skipping = RandomClips(num_frames=num_frames, stride=stride, boundary="skip")
    if len(short) == len(lengths):
        with pytest.raises(ConfigError, match="ask for fewer frames"):
            skipping.order(population, 0)
        return
    skipped = skipping.order(population, 0)
    assert skipped.too_short == tuple(short)
    assert skipped.is_pad_at is None
    came = population.video_of(skipped[:][:, 0])
    assert sorted(came.tolist()) == sorted(set(range(len(lengths))) - set(short))


def test_uniform_clips_skip_too_and_a_rate_is_the_same_however_it_is_written():
    clips = [RandomClips(num_frames=4, fps=fps) for fps in (12.5, "12.5", Fraction(25, 2))]
    assert len({clip.traits.identity for clip in clips}) == 1
    population = Population.of([np.array([9]), np.array([3]), np.array([7])])
    order = UniformClips(num_clips=2, num_frames=5, boundary="skip").order(population, 0)
    assert order.too_short == (1,)
    assert population.video_of(order[:][:, 0]).tolist() == [0, 0, 2, 2]


@given(
    weights=st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any), epoch=st.integers(0, 3)
)
def test_videos_come_as_often_as_their_weights_say_up_to_one(weights, epoch):
    population = Population.of([np.array([6])] * len(weights))
    sampler = RandomClips(num_frames=2, weights=tuple(map(float, weights)))
    order = sampler.order(population, epoch)
    came = np.bincount(population.video_of(order[:][:, 0]), minlength=len(weights))
    expected = np.array(weights) / sum(weights) * len(weights)
    assert came.sum() == len(order) == len(weights)
    assert (np.abs(came - expected) < 1).all()
