"""Which frames are wanted: by rate, by number, keyframes, at times."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.selection import AtTimes, ByRate, EveryNth, Keyframes, selection_of
from headrace.testing.synth import SynthClip, Timing, write_clip
from headrace.video.stream_index import StreamIndex

UNEVEN = Timing(durations_seconds=(Fraction(1, 10), Fraction(1, 2), Fraction(1, 30)))
LATE = Timing(start_seconds=Fraction(7, 5))


def scanned(folder, **clip):
    return StreamIndex.scan(write_clip(folder / "clip", SynthClip(**clip)))


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    return scanned(tmp_path_factory.mktemp("steady"), num_frames=60, gop=7)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    return scanned(tmp_path_factory.mktemp("uneven"), num_frames=60, timing=UNEVEN, container="mkv")


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    return scanned(tmp_path_factory.mktemp("late"), num_frames=30, timing=LATE, container="ts")


def shown_at(index, rate):
    """By the definition: what is shown at each multiple of 1 / rate from the first frame on."""
    time_base = index.info.time_base
    start = int(index.pts[0]) * time_base
    end = (int(index.pts[-1]) + max(1, int(index.duration[-1]))) * time_base
    found, moment = [], start
    while moment < end:
        shown = [n for n, pts in enumerate(index.pts.tolist()) if pts * time_base <= moment]
        found.append(shown[-1])
        moment += 1 / rate
    return sorted(set(found))


@given(rate=st.fractions(Fraction(1, 3), Fraction(70), max_denominator=1001))
def test_a_rate_picks_what_is_shown_at_its_moments(steady, uneven, late, rate):
    for index in (steady, uneven, late):
        assert ByRate(rate).of(index).tolist() == shown_at(index, rate)


def test_half_a_frame_a_second_begins_with_the_first_frame(steady):
    assert ByRate(Fraction(1, 2)).of(steady).tolist() == [0]
    assert ByRate(Fraction(2)).of(steady).tolist() == [0, 15, 30, 45]


def test_a_rate_that_no_integer_holds_is_still_exact(steady):
    rate = Fraction("0.999999999999999999")
    assert ByRate(rate).of(steady).tolist() == [0, 30]


def test_a_rate_above_the_videos_gives_every_frame_once(uneven):
    assert ByRate(Fraction(10**9)).of(uneven).tolist() == list(range(60))


def test_every_nth_and_keyframes(steady):
    assert EveryNth(25).of(steady).tolist() == [0, 25, 50]
    assert Keyframes().of(steady).tolist() == np.flatnonzero(steady.is_keyframe).tolist()
    assert Keyframes().of(steady).tolist() == list(range(0, 60, 7))


def test_times_pick_what_is_shown_then(steady, late):
    at = AtTimes((Fraction(3, 2), Fraction("1.51"), Fraction(0)))
    assert at.of(steady).tolist() == [0, 45]
    assert AtTimes((Fraction(0), Fraction("1.5"))).of(late).tolist() == [0, 3]


@pytest.mark.parametrize("seconds", ["2", "30"])
def test_a_time_behind_the_end_names_the_length(steady, seconds):
    words = rf"shows nothing at {seconds} s: it runs from 0.000 s to 2.000 s; ask for earlier times"
    with pytest.raises(ConfigError, match=words):
        AtTimes((Fraction(1), Fraction(seconds))).of(steady)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: ByRate(Fraction(0)), "a rate must be > 0"),
        (lambda: EveryNth(0), "every must be an integer >= 1, got 0"),
        (lambda: AtTimes((Fraction(-1),)), "times must be >= 0 seconds"),
        (lambda: AtTimes(()), "at least one"),
    ],
)
def test_what_cannot_be_is_refused(made, words):
    with pytest.raises(ConfigError, match=words):
        made()


@pytest.mark.parametrize(
    "selection",
    [
        *(ByRate(Fraction(30_000, 1001)), EveryNth(30), Keyframes()),
        AtTimes((Fraction(3, 2), Fraction(1, 3))),
    ],
)
def test_a_selection_is_read_from_its_text(selection):
    assert selection_of(str(selection)) == selection


@pytest.mark.parametrize("text", ["", "fps x", "every", "at 1;2", "some 3", "fps 1/0"])
def test_text_that_is_no_selection_is_refused(text):
    with pytest.raises(ConfigError, match="does not say which frames"):
        selection_of(text)
