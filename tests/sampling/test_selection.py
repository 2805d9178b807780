"""Which frames and moments are wanted, and which frame of a camera belongs to a moment."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigError, Moments
from headrace.sampling.moments import MISSING, nearest, previous, repeated, same_index
from headrace.sampling.selection import AtTimes, ByRate, EveryNth, Keyframes, selection_of
from headrace.testing.synth import SynthClip, Timing
from headrace.video.frames_played import frames_played_between, played_range

UNEVEN = Timing(durations_seconds=(Fraction(1, 10), Fraction(1, 2), Fraction(1, 30)))
LATE = Timing(start_seconds=Fraction(7, 5))


@pytest.fixture(scope="module")
def steady(scanned):
    return scanned(SynthClip(num_frames=60, gop=7))


@pytest.fixture(scope="module")
def uneven(scanned):
    return scanned(SynthClip(num_frames=60, timing=UNEVEN, container="mkv"))


@pytest.fixture(scope="module")
def late(scanned):
    return scanned(SynthClip(num_frames=30, timing=LATE, container="ts"))


@given(rate=st.fractions(Fraction(1, 3), Fraction(70), max_denominator=1001))
def test_a_rate_picks_the_frames_displayed_at_its_moments(steady, uneven, late, rate):
    """By the definition: what is shown at each multiple of 1 / rate from the first frame on."""
    for index in (steady, uneven, late):
        shown = frames_played_between(index, played_range(index)[0], None, rate)
        assert ByRate(rate).of(index).tolist() == sorted(set(shown.tolist()))


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
@pytest.mark.parametrize("num_frames", [45, 46, 49])
def test_half_the_rate_of_a_video_gives_every_other_frame(scanned, container, num_frames):
    """Matroska rounds to milliseconds: 46 frames end at 1.535 s, behind a point at 1.53487."""
    rate = Fraction(30000, 1001)
    clip = SynthClip(num_frames=num_frames, frame_rate=rate, container=container)
    assert ByRate(rate / 2).of(scanned(clip)).tolist() == list(range(0, num_frames, 2))


@pytest.mark.parametrize(
    ("index", "selection", "expected"),
    [
        ("steady", ByRate(Fraction(1, 2)), [0]),
        ("steady", ByRate(Fraction(2)), [0, 15, 30, 45]),
        ("steady", ByRate(Fraction("0.999999999999999999")), [0, 30]),
        ("uneven", ByRate(Fraction(10**9)), [*range(60)]),
        ("steady", EveryNth(25), [0, 25, 50]),
        ("steady", Keyframes(), [*range(0, 60, 7)]),
        ("steady", AtTimes((Fraction(3, 2), Fraction("1.51"), Fraction(0))), [0, 45]),
        ("late", AtTimes((Fraction(0), Fraction("1.5"))), [0, 3]),
    ],
    ids=str,
)
def test_a_selection_picks_these_frames(request, index, selection, expected):
    """A rate that no integer holds is exact, and one above the video's gives every frame once."""
    index = request.getfixturevalue(index)
    assert selection.of(index).tolist() == expected
    assert selection != Keyframes() or np.flatnonzero(index.is_keyframe).tolist() == expected


@pytest.mark.parametrize("seconds", ["2", "30"])
def test_a_time_behind_the_end_names_the_length(steady, seconds):
    words = rf"shows nothing at {seconds} s: it runs from 0.000 s to 2.000 s; ask for earlier times"
    with pytest.raises(ConfigError, match=words):
        AtTimes((Fraction(1), Fraction(seconds))).of(steady)


@pytest.mark.parametrize(
    "selection",
    [
        *(ByRate(Fraction(30_000, 1001)), EveryNth(30), Keyframes()),
        AtTimes((Fraction(3, 2), Fraction(1, 3))),
    ],
)
def test_a_selection_is_read_from_its_text(selection):
    assert selection_of(str(selection)) == selection


SECONDS = np.arange(25) / 12


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        (Moments.every(6), [0, 6, 12, 18, 24]),
        (Moments.every(10, first=3), [3, 13, 23]),
        (Moments.frames([9, 0, 4, 4]), [0, 4, 9]),
        (Moments.frames({"clip": np.array([2, 3])}), [2, 3]),
        (Moments.at_seconds([0.5, 0.04, 1.02], tolerance_ms=45), [0, 6, 12]),
        (Moments.rate(2.0), [0, 6, 12, 18, 24]),
        (Moments.rate(12), list(range(25))),
        (Moments.rate(8), [0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19, 21, 22, 24]),
    ],
)
def test_the_moments_that_are_asked_for(moments, expected):
    assert moments.of("clip", SECONDS).tolist() == expected


@pytest.mark.parametrize(
    ("frame_rate", "frames", "per_second", "expected"),
    [
        (12, 120, 2.0, 20),
        (12, 121, 2.0, 21),
        (12, 1, 2.0, 1),
        (30, 45, 30, 45),
        (60, 120, 60, 120),
        (30000 / 1001, 90, 15000 / 1001, 45),
    ],
)
@pytest.mark.parametrize("decimals", [9, 3], ids=["exact", "milliseconds"])
def test_a_grid_ends_where_the_last_frame_ends(frame_rate, frames, per_second, expected, decimals):
    seconds = np.round(np.arange(frames) / frame_rate, decimals)
    chosen = Moments.rate(per_second).of("clip", seconds)
    assert len(chosen) == expected
    assert np.allclose(np.diff(seconds[chosen]), 1 / per_second, atol=0.0011)


def test_a_grid_has_no_moment_in_a_gap():
    seconds = np.array([0, 0.09, 0.2, 0.29, 2.0, 2.09, 2.2, 2.26])
    assert Moments.rate(5).of("clip", seconds).tolist() == [0, 2, 4, 6]


TIMES = np.array([0.0, 0.1, 0.2, 0.5, 0.6])


@pytest.mark.parametrize(
    ("moment", "near", "before"),
    [
        (0.0, 0, 0),
        (0.04, 0, 0),
        (0.05, 0, 0),
        (0.06, 1, 0),
        (0.19, 2, 1),
        (0.29, 2, 2),
        (0.35, MISSING, MISSING),
        (0.42, 3, MISSING),
        (0.69, 4, 4),
        (0.8, MISSING, MISSING),
        (-0.05, 0, MISSING),
        (-0.2, MISSING, MISSING),
    ],
)
def test_the_frame_of_a_moment(moment, near, before):
    assert nearest(np.array([moment]), TIMES, 0.1).tolist() == [near]
    assert previous(np.array([moment]), TIMES, 0.1).tolist() == [before]


ASCENDING = st.lists(st.integers(0, 10_000), min_size=1, max_size=40, unique=True).map(sorted)


@given(moments=ASCENDING, times=ASCENDING, tolerance=st.integers(0, 3_000))
def test_no_other_frame_is_nearer_or_none_of_the_future_is_taken(moments, times, tolerance):
    given_ = np.array(moments) / 1, np.array(times) / 1, tolerance
    found = nearest(*given_).tolist(), previous(*given_).tolist()
    for moment, near, before in zip(moments, *found, strict=True):
        apart = [abs(time - moment) for time in times]
        assert near == (apart.index(min(apart)) if min(apart) <= tolerance else MISSING)
        past = [k for k, time in enumerate(times) if moment - tolerance <= time <= moment]
        assert before == (past[-1] if past else MISSING)


def test_a_camera_that_ends_early_misses_its_last_moments():
    assert same_index(5, 3).tolist() == [0, 1, 2, MISSING, MISSING]
    assert same_index(2, 3).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("frames", "expected"),
    [([0, 1, -1, -1, 4], [0, 1, 1, 1, 4]), ([-1, -1, 2, -1], [2, 2, 2, 2]), ([-1, -1], [-1, -1])],
)
def test_the_last_frame_comes_again(frames, expected):
    assert repeated(np.array(frames)).tolist() == expected
