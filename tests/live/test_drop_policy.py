"""What is done when frames are too many, or too old."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.live import drop_policy
from headrace.runtime.stage import SlidingWindows
from headrace.testing.fake_clock import FakeClock
from live.live_frames import frame, item

MS = 1_000_000
SECOND = 1000 * MS


NEWEST, ALL = (False, 1), (True, 2)
POLICIES = {
    **{("auto", True): NEWEST, ("keep-last", True): NEWEST},
    **dict.fromkeys([("auto", False), ("keep-all", True), ("keep-all", False)], ALL),
}
"""Name, and whether it is live -> whether all is kept, and the queue."""


@pytest.mark.parametrize(("name", "is_live"), POLICIES)
def test_a_name_means_what_the_pace_makes_of_it(name, is_live):
    chosen = drop_policy.DropPolicy.chosen(name, is_live=is_live)
    assert (chosen.keeps_all, chosen.queue) == POLICIES[name, is_live]
    assert drop_policy.DropPolicy.chosen(name, is_live=is_live, queue=7).queue == 7


@pytest.mark.parametrize(
    ("limit", "work_seconds", "places"),
    [(None, 9.0, 2), (0.2, 0.05, 2), (0.2, 0.1, 2), (0.2, 0.11, 1), (0.2, 5.0, 1)],
)
def test_a_second_batch_is_made_ready_only_where_it_would_be_in_time(limit, work_seconds, places):
    chosen = drop_policy.DropPolicy.chosen("keep-last", is_live=True, max_staleness_seconds=limit)
    assert chosen.in_flight(work_seconds) == places


def test_age_counts_from_the_arrival_to_now():
    clock = FakeClock(now_ns=1_000 * MS)
    limit = drop_policy.AgeLimit(seconds=0.2, clock=clock)
    assert not limit.is_over(800 * MS)
    assert limit.is_over(800 * MS - 1)
    clock.advance(0.1)
    assert limit.is_over(899 * MS)
    assert not drop_policy.AgeLimit(seconds=None, clock=clock).is_over(0)


@pytest.mark.parametrize(
    ("age_ms", "ahead_ms", "expected"),
    [(100, 100, False), (101, 100, True), (130, 60, False), (141, 60, True), (100, 5_000, False)],
)
def test_work_ahead_counts_as_age_up_to_half_of_the_limit(age_ms, ahead_ms, expected):
    limit = drop_policy.AgeLimit(seconds=0.2, clock=FakeClock(now_ns=age_ms * MS))
    assert limit.is_over(0, ahead_ms / 1e3) is expected


def test_a_batch_lets_go_only_the_frames_that_are_too_old():
    clock = FakeClock(now_ns=1_000 * MS)
    grouping = drop_policy.StaleFilter(
        SlidingWindows(length=4), drop_policy.AgeLimit(seconds=0.2, clock=clock)
    )
    arrivals = [700, 790, 850, 990]
    items = [item(k, frame(k, arrived_ns=at * MS)) for k, at in enumerate(arrivals)]
    groups = [group for each in items for group in grouping.add(each)]
    assert [(group.cause, [i.index for i in group.items]) for group in groups] == [
        (drop_policy.STALE, [0]),
        (drop_policy.STALE, [1]),
    ]
    assert [[i.index for i in group.items] for group in grouping.flush()] == [[2, 3]]


class Places:
    """So many that are free."""

    def __init__(self, free):
        self.free = free

    def take(self):
        self.free -= 1
        return self.free >= 0


def test_a_source_that_always_comes_a_moment_late_has_its_turns_too():
    """One place, free again each time before the first of two sources comes."""
    turns, got = drop_policy.FairAdmission(), []
    for _ in range(6):
        places = Places(1)
        got += [source for source in (0, 1) if turns.admits(source, places.take)]
    assert got == [0, 1, 0, 1, 0, 1]


def test_a_source_that_is_alone_needs_no_turn():
    turns, frees = drop_policy.FairAdmission(), [True, False, True, True]
    assert [turns.admits(0, Places(free).take) for free in frees] == frees


def test_a_claim_of_a_source_that_is_gone_costs_the_others_one_place():
    turns = drop_policy.FairAdmission()
    assert not turns.admits(1, Places(0).take)
    assert [turns.admits(0, Places(1).take) for _ in range(4)] == [False, True, True, True]


@given(
    before=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60),
    after=st.lists(st.integers(0, 3), max_size=60),
)
def test_whoever_comes_while_there_are_places_gives_way_to_each_other_one_once(before, after):
    turns, refused = drop_policy.FairAdmission(), [0, 0, 0, 0]
    for source, is_free in before:
        turns.admits(source, Places(is_free).take)
    for source in after:
        got = turns.admits(source, Places(1).take)
        refused[source] = 0 if got else refused[source] + 1
        assert refused[source] <= 3


def test_an_overload_is_told_of_once_when_it_begins_and_once_when_it_is_over():
    watch, told = drop_policy.OverloadDetector(), []
    drops = [*range(0, 30), *range(80, 120, 10)]  # tenths of a second; the second spell goes on
    for tenths in range(300):
        if tenths in drops:
            told.append((tenths, watch.drop(tenths * SECOND // 10, "overflow at decode", 2)))
        told.append((tenths, watch.end(tenths * SECOND // 10)))
    begun = "overload: frames arrive faster than they are processed; 22 dropped in 1.0 s"
    over = "overload is over: no frame dropped for 10 s; 68 dropped in 11.0 s"
    heard = [each for each in told if each[1] is not None]
    assert heard == [(10, f"{begun} (overflow at decode)"), (210, over)]


def test_drops_now_and_then_are_no_overload():
    watch = drop_policy.OverloadDetector()
    moments = [0, *(k * SECOND for k in range(5, 60, 2))]
    assert {watch.drop(at_ns, "stale at model", 1) for at_ns in moments} == {None}
    assert watch.end(100 * SECOND) is None
