"""Clips at a rate of their own, videos that are too short, and videos in proportion to weights."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.clip_shape import BOUNDARIES
from headrace.sampling.clips import RandomClips, UniformClips
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerUse, adapted
from sampling.populations import populations
from sampling.timed import even, frame_times, population_of, shown_by_hand

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
def test_a_clip_by_time_is_what_the_words_say(times, num_frames, fps, boundary):
    population = population_of(times)
    sampler = RandomClips(num_frames=num_frames, fps=fps, boundary=boundary, each_once="starts")
    last = (num_frames - 1) / Fraction(str(fps))
    if boundary == "skip" and not any(shown_by_hand(each, 0, last) is not None for each in times):
        with pytest.raises(ConfigError, match="too short"):
            sampler.order(population, 0)
        return
    order = sampler.order(population, 0)
    clips = order[:]
    pads = np.zeros(clips.shape, bool)
    if order.is_pad_at is not None:
        pads = order.is_pad_at(np.arange(len(order)))
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
        with pytest.raises(ConfigError, match="too short"):
            skipping.order(population, 0)
        return
    skipped = skipping.order(population, 0)
    assert skipped.too_short == tuple(short)
    assert skipped.is_pad_at is None
    came = population.video_of(skipped[:][:, 0])
    assert sorted(came.tolist()) == sorted(set(range(len(lengths))) - set(short))


def test_uniform_clips_skip_too():
    population = Population.of([np.array([9]), np.array([3]), np.array([7])])
    order = UniformClips(num_clips=2, num_frames=5, boundary="skip").order(population, 0)
    assert order.too_short == (1,)
    assert population.video_of(order[:][:, 0]).tolist() == [0, 0, 2, 2]


def test_a_video_that_is_too_short_in_time_is_named():
    population = population_of([FILES[0], even(30, Fraction(30), Fraction(1, 1000))])
    with pytest.raises(
        ConfigError, match=r"16 frames at 8 fps takes 1\.875 s, video 1 shows 1\.000 s \(and 0 more"
    ):
        RandomClips(num_frames=16, fps=8).order(population, 0)


@given(
    weights=st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any),
    epoch=st.integers(0, 3),
)
def test_videos_come_as_often_as_their_weights_say_up_to_one(weights, epoch):
    population = Population.of([np.array([6])] * len(weights))
    sampler = RandomClips(num_frames=2, weights=tuple(map(float, weights)))
    order = sampler.order(population, epoch)
    came = np.bincount(population.video_of(order[:][:, 0]), minlength=len(weights))
    expected = np.array(weights) / sum(weights) * len(weights)
    assert came.sum() == len(order) == len(weights)
    assert (np.abs(came - expected) < 1).all()


def test_weights_over_many_epochs_are_exact_in_the_mean():
    population = Population.of([np.array([6])] * 3)
    sampler = RandomClips(num_frames=2, weights=(1.0, 2.0, 6.0))
    came = sum(
        np.bincount(population.video_of(sampler.order(population, epoch)[:][:, 0]), minlength=3)
        for epoch in range(600)
    )
    assert np.abs(came / 1800 - np.array([1, 2, 6]) / 9).max() < 0.02


def test_weights_belong_to_the_videos_that_were_given():
    use = SamplerUse(videos=np.array([0, 2]), videos_given=3)
    sampler = adapted(RandomClips(num_frames=2, weights=(1.0, 5.0, 2.0)), use)
    assert sampler.weights == (1.0, 2.0)
    with pytest.raises(
        ConfigError, match="one weight is needed for each of 3 videos or rows, got 5"
    ):
        adapted(RandomClips(num_frames=2, weights=(1.0,) * 5), use)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fps": 0}, "fps must be above 0, got 0"),
        ({"fps": "fast"}, "fps must be a finite number, .* got 'fast'"),
        ({"fps": float("inf")}, "fps must be a finite number"),
        ({"fps": True}, "fps must be a finite number"),
        ({"fps": 8, "stride": 2}, "by fps=8 or by stride=2, not by both; leave out one"),
        ({"fps": 1e-12}, "at most 10\\*\\*9 seconds away"),
        ({"num_frames": 4.5}, "num_frames must be an integer >= 1, got 4.5"),
        ({"stride": 1.5}, "stride must be an integer >= 1, got 1.5"),
        ({"boundary": "drop"}, f"boundary must be one of {', '.join(BOUNDARIES)}, got 'drop'"),
        (
            {"weights": "even"},
            "weights must be numbers, .* or a mapping .* 'even'",
        ),
        ({"weights": ("1", "much")}, "each of weights must be a finite number, .* got 'much'"),
        ({"weights": ()}, "weights must be finite, at least 0 and not all 0"),
        ({"num_frames": None}, "num_frames must be an integer >= 1, got None"),
        ({"num_frames": 10**9, "fps": 8}, "num_frames must be at most 1,048,576"),
        ({"stride": 10**30}, "stride must be at most 1,048,576"),
        ({"weights": (0.0, -1.0)}, "weights must be finite, at least 0 and not all 0"),
        ({"weights": (1.0,), "each_once": "starts"}, "each start comes once; leave out one"),
    ],
)
def test_impossible_clips_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        RandomClips(**{"num_frames": 4, **options})


def test_weights_are_the_same_however_they_are_given():
    given_ = [(1.0, 2.0), [1, 2], np.array([1, 2]), ("1", "2")]
    clips = [RandomClips(num_frames=4, weights=weights) for weights in given_]
    assert len({clip.traits.identity for clip in clips}) == 1


def test_a_rate_is_the_same_however_it_is_written():
    clips = [RandomClips(num_frames=4, fps=fps) for fps in (12.5, "12.5", Fraction(25, 2))]
    assert len({clip.traits.identity for clip in clips}) == 1
