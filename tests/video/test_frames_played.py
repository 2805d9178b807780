"""Exact frames at times, and corrections of wrong clocks."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigError
from headrace.testing.synth import KINDS, SynthClip
from headrace.video.frames_played import (
    frames_played_at,
    frames_played_between,
    grid_bounds,
    played_range,
)
from headrace.video.timebase import (
    clock_shifts,
    exact_number,
    format_rate,
    make_ascending,
    to_seconds,
    to_ticks,
)

KINDS_OF_TIME = [kind for kind in KINDS if kind in ("h264", "vp9") or "vfr" in kind or "ts" in kind]


@pytest.fixture(scope="module", params=KINDS_OF_TIME)
def index(request, scanned):
    return scanned(request.param)


def test_each_frame_is_shown_until_the_next_starts(index):
    times = [int(pts) * index.info.time_base for pts in index.pts]
    middles = [(a + b) / 2 for a, b in pairwise([*times, played_range(index)[1]])]
    everything = list(range(len(index)))
    assert frames_played_at(index, times).tolist() == everything
    assert frames_played_at(index, map(float, times)).tolist() == everything
    assert frames_played_at(index, [f"{float(each):.6f}" for each in times]).tolist() == everything
    assert frames_played_at(index, middles).tolist() == everything


def test_adjacent_ranges_share_no_frame(index):
    times = index.seconds_of(np.arange(len(index)))
    cuts = [float(times[0]), float(times[len(times) // 3]), float(times[-5]), None]
    parts = [frames_played_between(index, a, b, None) for a, b in pairwise(cuts)]
    assert np.concatenate(parts).tolist() == list(range(len(index)))


def test_a_rate_returns_the_frames_of_its_grid(index):
    start, stop = played_range(index)
    for rate in (Fraction(7), Fraction(30000, 1001), 100):
        found = frames_played_between(index, start, stop, rate)
        end = int(grid_bounds(index)[-1]) * index.info.time_base
        assert len(found) == -((start - end) * rate // 1)
        assert found.tolist() == sorted(found)


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
@pytest.mark.parametrize("num_frames", [45, 46, 48, 49])
def test_the_videos_own_rate_returns_each_frame_once(scanned, container, num_frames):
    rate = Fraction(30000, 1001)
    index = scanned(SynthClip(num_frames=num_frames, frame_rate=rate, container=container))
    start = played_range(index)[0]
    assert frames_played_between(index, start, None, rate).tolist() == list(range(num_frames))


def test_times_outside_the_video_are_refused(index):
    start, stop = played_range(index)
    for seconds in (start - 1, stop, stop + 1):
        with pytest.raises(ConfigError, match="shows frames from"):
            frames_played_at(index, [seconds])


def test_decreasing_times_are_interpolated():
    ascending = {
        **{(): [], (5,): [5], (0, 3, 3, 9): [0, 3, 3, 9]},
        (0, 10, 40, 30, 40, 50): [0, 10, 20, 30, 40, 50],
        **{(9, 7, 8, 9): [7, 7, 8, 9], (0, 1, 2, 0): [0, 1, 2, 2]},
    }
    for ticks, expected in ascending.items():
        assert make_ascending(np.array(ticks, np.int64)).tolist() == expected


@given(st.lists(st.integers(0, 50), max_size=40))
def test_the_result_ascends_and_the_longest_ascent_stays(ticks):
    found = make_ascending(np.array(ticks, np.int64))
    assert (np.diff(found) >= 0).all()
    longest = [0] * (len(ticks) + 1)
    for n, tick in enumerate(ticks):
        longest[n] = 1 + max((longest[k] for k in range(n) if ticks[k] <= tick), default=0)
    assert int((found == np.array(ticks, np.int64)).sum()) >= max(longest, default=0)


MISSING = np.iinfo(np.int64).min
STEP = 3000
PART = [5000 + STEP * k for k in range(40)]
TIME_BASE = Fraction(1, 90_000)


TURN = 1 << 33


def joined(*parts: list[int], period: int = 0) -> list[int]:
    """Return the times of packets, continued after restarts of the clock."""
    ticks = np.array([tick for part in parts for tick in part], np.int64)
    found = clock_shifts(ticks, TIME_BASE, period=period)
    return np.where(ticks == MISSING, MISSING, ticks + found).tolist()


@pytest.mark.parametrize("lengths", [[40], [40, 40], [40, 40, 40], [40, 1], [40, 2], [40, 5]])
def test_a_clock_restart_in_a_short_last_part_is_detected(lengths):
    parts = [PART[:length] for length in lengths]
    assert joined(*parts) == [5000 + STEP * k for k in range(sum(lengths))]


def test_packets_without_a_time_belong_to_their_part():
    found = clock_shifts(np.array([*PART, PART[0], MISSING, *PART[2:]], np.int64), TIME_BASE)
    assert set(found[:40]) == {0}
    assert set(found[40:]) == {40 * STEP}


@pytest.mark.parametrize("wrong", [1, 3])
@pytest.mark.parametrize("at", [1, 20])
@pytest.mark.parametrize("by", [-90_000, 90_000, 900_000_000])
def test_times_that_recover_at_once_are_not_a_restart(wrong, at, by):
    """The times of a few packets are wrong; they are corrected by their neighbours."""
    lying = [*PART[:at], *[tick + by for tick in PART[at : at + wrong]], *PART[at + wrong :]]
    assert joined(lying, period=TURN) == lying


@pytest.mark.parametrize("start", [TURN, TURN - 20 * STEP, 0])
def test_a_part_before_the_first_one_is_not_a_wrapped_clock(start):
    """FFmpeg adds 2 ** 33 to times that are a minute or more before the first."""
    first = [324_000_000 + tick for tick in PART]
    turned = [tick + TURN * (k < 20 or start == TURN) for k, tick in enumerate(PART)]
    later = PART if start == 0 else turned
    assert joined(first, later, period=TURN) == [first[0] + STEP * k for k in range(80)]


def test_a_part_after_a_gap_continues_too():
    late = [*PART[:-3], *[tick + 90_000 for tick in PART[-3:]]]
    assert joined(late, PART) == [*late, *[late[-1] + STEP * (k + 1) for k in range(40)]]


@pytest.mark.parametrize(
    "ticks",
    [
        [*PART, *(tick + 900_000 for tick in PART)],  # a gap
        *([*PART, PART[-1] - back] for back in (1, 8999)),  # less than a tenth of a second
        *([], [7], [MISSING, MISSING], [0, 0, 0]),
    ],
)
def test_times_stay_without_a_restart(ticks):
    assert joined(ticks) == ticks


BASES = st.sampled_from([Fraction(1, 90_000), Fraction(1001, 30_000), Fraction(1, 25)])


@given(ticks=st.integers(-(2**60), 2**60), time_base=BASES)
def test_seconds_become_the_last_tick_at_or_before_them(ticks, time_base):
    seconds = to_seconds(ticks, time_base)
    assert to_ticks(seconds, time_base) == to_ticks(seconds + time_base / 2, time_base) == ticks


def test_rates_are_formatted():
    rates = (Fraction(25), Fraction(30000, 1001), None, Fraction(1, 3))
    assert list(map(format_rate, rates)) == ["25", "29.97", "?", "0.333"]


def test_a_number_from_a_table_or_a_command_is_exact():
    values = ("30000/1001", 0.1, "1e3", "-2.5E-3", 1e308)
    numbers = ("30000/1001", "1/10", 1000, "-1/400", 10**308)
    assert [exact_number("rate", each) for each in values] == list(map(Fraction, numbers))


@pytest.mark.parametrize(
    "value",
    ["1e999999999", "1E-999999999", "1e+99_99", "1/0", "nan", "inf", "", True, None, "9" * 9999],
)
def test_invalid_and_infinite_numbers_are_refused(value):
    with pytest.raises(ConfigError, match="rate must be a finite number"):
        exact_number("rate", value)
