"""Times that are missing, stand still, go back or jump ahead."""

from fractions import Fraction

from headrace.live.timeline import Arrivals, Timeline

MS = Fraction(1, 1000)


def placed(*pts, rate=Fraction(25)):
    timeline = Timeline(MS, rate)
    return [timeline.place(each) for each in pts]


def test_good_times_stay_as_they_are():
    found = placed(7, 47, 87)
    assert [(each.pts, each.is_given, each.is_gap, each.words) for each in found] == [
        (pts, True, False, "") for pts in (7, 47, 87)
    ]


def test_missing_times_are_counted_on_and_told_once():
    found = placed(0, None, None, 120)
    assert [each.pts for each in found] == [0, 40, 80, 120]
    assert [each.is_given for each in found] == [True, False, False, True]
    assert [bool(each.words) for each in found] == [False, True, False, False]
    assert not any(each.is_gap for each in found)


def test_no_time_on_the_first_frame_is_nothing_to_tell():
    found = placed(None, 40)
    assert [(each.pts, each.words, each.is_gap) for each in found] == [
        (0, "", False),
        (40, "", False),
    ]


def test_without_a_rate_times_that_miss_still_grow():
    assert [each.pts for each in placed(None, None, None, rate=None)] == [0, 1, 2]


def test_a_time_told_twice_is_nudged_on():
    found = placed(0, 0, 40, 40, 80)
    assert [each.pts for each in found] == [0, 1, 40, 41, 80]
    assert [bool(each.words) for each in found] == [False, True, False, False, False]
    assert not any(each.is_gap for each in found)


def test_times_that_go_back_begin_anew():
    found = placed(1000, 1040, 0, 40)
    assert [each.is_gap for each in found] == [False, False, True, False]
    assert found[2].words == "timestamps went back by 1040 ms"
    assert [each.pts for each in found] == [1000, 1040, 0, 40]


def test_a_jump_ahead_is_a_gap():
    found = placed(0, 40, 1140, 1180)
    assert [each.is_gap for each in found] == [False, False, True, False]
    assert found[2].words == "timestamps jumped ahead by 1100 ms"


def test_a_slow_camera_has_no_gaps():
    assert not any(each.is_gap for each in placed(0, 2000, 4000, 6000, rate=None))


def test_a_camera_that_halves_its_rate_in_the_dark_has_no_gaps():
    assert not any(each.is_gap for each in placed(0, 40, 80, 160, 240, 400, 560))


def test_without_times_the_moments_of_arrival_count_and_always_grow():
    arrivals = Arrivals()
    moments_ns = (5_000_000_000, 5_040_000_000, 5_040_000_000, 5_030_000_000, 6_000_000_000)
    assert [arrivals.place(each) for each in moments_ns] == [0, 3600, 3601, 3602, 90_000]
