"""Clips by frames and by time: where they start, which frame is shown, and short videos."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import (
    Bursts,
    ConfigError,
    DeltaFrames,
    Population,
    RandomClips,
    SamplerContext,
    SegmentClips,
    UniformClips,
)
from headrace.sampling.clip_shape import clip_indices, clip_span
from headrace.sampling.frame_samplers import SequentialFrames, ShuffledFrames, UniformFrames
from headrace.sampling.population import seconds_of
from headrace.sampling.sampler import bind_sampler
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


FRAME_RATES = [
    Fraction(r) for r in ("15", "24000/1001", "24", "25", "30000/1001", "30", "50", "60")
]


@given(
    times=st.lists(frame_times(), min_size=1, max_size=3),
    seconds=st.lists(st.fractions(-2, 2, max_denominator=1000), min_size=1, max_size=5),
)
def test_a_frame_is_shown_from_its_time_until_that_of_the_next(times, seconds):
    population = population_of(times)
    for video, of in enumerate(times):
        index = np.arange(len(of))
        found, outside = population.shown_after(np.full(len(of), video), index, tuple(seconds))
        for start in index.tolist():
            for k, each in enumerate(seconds):
                by_hand = shown_by_hand(of, start, each)
                assert outside[start, k] == (by_hand is None)
                edge = 0 if each < 0 else len(of) - 1
                assert found[start, k] == (edge if by_hand is None else by_hand)


@pytest.mark.parametrize("rate", FRAME_RATES, ids=str)
@pytest.mark.parametrize("per_second", [1000, 15360, 90000, 10**9])
def test_at_its_own_rate_a_video_gives_frame_after_frame_however_its_times_are_rounded(
    rate, per_second
):
    times = even(200, rate, Fraction(1, per_second), first=7)
    seconds = tuple(k / rate for k in range(50))
    starts = np.zeros(150, np.int64), np.arange(150)
    found, outside = population_of([times]).shown_after(*starts, seconds)
    assert (found == np.arange(150)[:, None] + np.arange(50)).all()
    assert not outside.any()


@pytest.mark.parametrize("time_base", [Fraction(1, 30), Fraction(1, 1000), Fraction(1, 15360)])
def test_times_may_be_written_as_decimals(time_base):
    times = even(30, Fraction(30), time_base)
    seconds = seconds_of("delta_seconds", [-2 / 30, -1 / 30, 0.0, 0.033333, 2 / 30])
    found, _ = population_of([times]).shown_after(np.array([0]), np.array([10]), seconds)
    assert found.tolist() == [[8, 9, 10, 11, 12]]


@given(times=frame_times(), last=st.fractions(0, 3, max_denominator=50))
def test_starts_are_those_from_which_something_is_shown_to_the_end(times, last):
    fits = [shown_by_hand(times, k, last) is not None for k in range(len(times))]
    assert times.num_starts((Fraction(0), last)) == sum(fits)
    assert fits == sorted(fits, reverse=True)


@given(
    times=st.lists(frame_times(), min_size=1, max_size=3),
    deltas=st.lists(
        st.sampled_from([-1, -0.2, -0.1, "-1/30", 0, 0.04, 0.5]), min_size=1, max_size=4
    ),
    sampling=st.sampled_from([SequentialFrames(stride=2), UniformFrames(), ShuffledFrames(seed=3)]),
)
def test_frames_are_those_shown_so_long_from_the_samplers(times, deltas, sampling):
    population = population_of(times)
    frames = sampling.order(population, 1)
    order = DeltaFrames(delta_seconds=tuple(deltas), sampling=sampling).order(population, 1)
    assert len(order) == len(frames)
    pads = order.is_pad_at(np.arange(len(order)))
    for frame, clip, pad in zip(frames[:], order[:], pads, strict=True):
        video, index = (int(each) for each in population.locate(frame))
        at = [shown_by_hand(times[video], index, Fraction(str(delta))) for delta in deltas]
        assert pad.tolist() == [each is None for each in at]
        edges = [0 if Fraction(str(delta)) < 0 else len(times[video]) - 1 for delta in deltas]
        expected = [e if each is None else each for each, e in zip(at, edges, strict=True)]
        assert population.locate(clip)[1].tolist() == expected
        assert set(population.video_of(clip).tolist()) == {video}


def test_seed_batch_size_and_identity_are_those_of_the_sampler():
    population = population_of([even(400, Fraction(30), Fraction(1, 1000))])
    use = SamplerContext(videos=np.array([0]), videos_given=1, seed=7, batch_size=8)
    bursts = Bursts(frames_per_burst=4, lanes=8)
    found = bind_sampler(DeltaFrames(delta_seconds=(-0.1, 0), sampling=bursts), use)
    frames = bind_sampler(bursts, use).order(population, 0)
    assert (found.order(population, 0)[:][:, 1] == frames[:]).all()
    assert found.traits.seed == 7
    assert found.traits.num_frames == 2
    other = bind_sampler(DeltaFrames(delta_seconds=(-0.2, 0), sampling=bursts), use)
    assert found.traits.identity != other.traits.identity
    with pytest.raises(ConfigError, match="8 lanes"):
        bind_sampler(found, replace(use, seed=None, batch_size=9))


EVEN = [even(count, Fraction(25), Fraction(1, 90000), first=40) for count in (100, 8, 3, 1)]


@pytest.mark.parametrize("parts", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("place", ["middle", "ends"])
def test_of_an_even_video_frames_are_those_at_equal_numbers(parts, place):
    population = population_of(EVEN)
    order = SegmentClips(num_segments=parts, place=place, shuffle=False).order(population, 0)
    video, index = population.locate(order[:])
    assert video[:, 0].tolist() == [0, 1, 2, 3]
    for times, row in zip(EVEN, index.tolist(), strict=True):
        total = len(times)
        middle = [(2 * k + 1) * total // (2 * parts) for k in range(parts)]
        ends = [k * (total - 1) // max(1, parts - 1) for k in range(parts)]
        assert row == (middle if place == "middle" else ends)


@pytest.mark.parametrize("time_base", [Fraction(1, 1000), Fraction(1, 15360)])
def test_all_frames_of_a_video_are_spread_over_it(time_base):
    """60 frames a second come 16 or 17 ms apart."""
    population = population_of([even(64, Fraction(60), time_base)])
    for place in ("middle", "ends"):
        clips = SegmentClips(num_segments=64, place=place).order(population, 0)[:]
        assert clips.tolist() == [list(range(64))]


@given(
    times=st.lists(frame_times(), min_size=1, max_size=4),
    parts=st.integers(1, 9),
    place=st.sampled_from(["random", "middle", "ends"]),
    epoch=st.integers(0, 2),
)
def test_each_part_of_the_time_gives_a_frame_that_is_shown_in_it(times, parts, place, epoch):
    population = population_of(times)
    clips = SegmentClips(num_segments=parts, place=place).order(population, epoch)[:]
    video, index = population.locate(clips)
    assert sorted(video[:, 0].tolist()) == list(range(len(times)))
    assert (np.diff(index) >= 0).all()
    if place == "ends":
        return
    for v, row in zip(video[:, 0].tolist(), index.tolist(), strict=True):
        ticks = [*times[v].pts.tolist(), times[v].end]
        span = ticks[-1] - ticks[0]
        for k, each in enumerate(row):
            assert ticks[each] - 1 - ticks[0] <= max(1, (k + 1) * span / parts)
            assert ticks[each + 1] - ticks[0] >= k * span // parts


def test_random_moments_are_uniform_in_each_part():
    """One video of 40 frames in 4 parts: 1,000 epochs of counts within 5 sigma."""
    population = population_of([even(40, Fraction(25), Fraction(1, 1000))])
    sampler = SegmentClips(num_segments=4)
    rows = np.concatenate([sampler.order(population, epoch)[:] for epoch in range(1000)])
    for k, column in enumerate(rows.T):
        counts = np.bincount(column - 10 * k, minlength=10)
        assert np.abs(counts - 100).max() < 5 * np.sqrt(90)
    assert abs(np.corrcoef(rows[:, 0], rows[:, 1])[0, 1]) < 0.1


def test_runs_lie_inside_their_video_or_repeat_its_last_frame():
    population = population_of(EVEN)
    segments = {"num_segments": 2, "frames_per_segment": 3, "stride": 2}
    order = SegmentClips(place="ends", shuffle=False, **segments).order(population, 0)
    index = population.locate(order[:])[1].tolist()
    long, short = [[0, 2, 4, 95, 97, 99], [0, 2, 4, 3, 5, 7]], [[0, 2, 2] * 2, [0] * 6]
    assert index == [*long, *short]
    pads = order.is_pad_at(np.arange(4))
    no, last = [False] * 3, [False, False, True]
    assert pads.tolist() == [no + no, no + no, last + last, [False, True, True] * 2]


def test_weights_say_how_often_a_video_comes():
    population = population_of(EVEN)
    order = SegmentClips(num_segments=2, weights=(0.0, 1.0, 3.0, 0.0)).order(population, 0)
    came = np.bincount(population.video_of(order[:][:, 0]), minlength=4)
    assert came.tolist() == [0, 1, 3, 0]
