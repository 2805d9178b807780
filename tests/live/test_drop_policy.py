"""Drop policies: queues, ages, overload and fairness between sources."""

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
"""(name, is_live) -> (keeps_all, queue)"""


@pytest.mark.parametrize(("name", "is_live"), POLICIES)
def test_the_meaning_of_auto_depends_on_the_pace(name, is_live):
    policy = drop_policy.DropPolicy.from_name(name, is_live=is_live)
    assert (policy.keeps_all, policy.queue) == POLICIES[name, is_live]
    assert drop_policy.DropPolicy.from_name(name, is_live=is_live, queue=7).queue == 7


@pytest.mark.parametrize(
    ("limit", "work_seconds", "batches"),
    [(None, 9.0, 2), (0.2, 0.05, 2), (0.2, 0.1, 2), (0.2, 0.11, 1), (0.2, 5.0, 1)],
)
def test_a_second_batch_is_in_flight_only_if_it_would_be_in_time(limit, work_seconds, batches):
    policy = drop_policy.DropPolicy.from_name(
        "keep-last", is_live=True, max_staleness_seconds=limit
    )
    assert policy.in_flight(work_seconds) == batches


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


def test_only_stale_frames_are_dropped_from_a_batch():
    clock = FakeClock(now_ns=1_000 * MS)
    grouping = drop_policy.StaleFilter(
        SlidingWindows(length=4), drop_policy.AgeLimit(seconds=0.2, clock=clock)
    )
    arrivals = [700, 790, 850, 990]
    items = [item(k, frame(k, arrived_ns=ms * MS)) for k, ms in enumerate(arrivals)]
    groups = [group for value in items for group in grouping.add(value)]
    assert [(group.cause, [i.index for i in group.items]) for group in groups] == [
        (drop_policy.STALE, [0]),
        (drop_policy.STALE, [1]),
    ]
    assert [[i.index for i in group.items] for group in grouping.flush()] == [[2, 3]]


class Permits:
    """A number of free permits."""

    def __init__(self, free):
        self.free = free

    def acquire(self):
        self.free -= 1
        return self.free >= 0


def test_a_source_that_is_always_second_is_admitted_in_turn():
    """One permit is free each time, and the same source is always first."""
    admission, admitted = drop_policy.FairAdmission(), []
    for _ in range(6):
        permits = Permits(1)
        admitted += [source for source in (0, 1) if admission.admits(source, permits.acquire)]
    assert admitted == [0, 1, 0, 1, 0, 1]


def test_a_single_source_never_yields():
    admission, frees = drop_policy.FairAdmission(), [True, False, True, True]
    assert [admission.admits(0, Permits(free).acquire) for free in frees] == frees


def test_the_claim_of_an_ended_source_costs_the_others_one_permit():
    admission = drop_policy.FairAdmission()
    assert not admission.admits(1, Permits(0).acquire)
    assert [admission.admits(0, Permits(1).acquire) for _ in range(4)] == [False, True, True, True]


@given(
    before=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60),
    after=st.lists(st.integers(0, 3), max_size=60),
)
def test_a_source_yields_to_each_other_source_at_most_once_in_a_row(before, after):
    admission, yields = drop_policy.FairAdmission(), [0, 0, 0, 0]
    for source, is_free in before:
        admission.admits(source, Permits(is_free).acquire)
    for source in after:
        is_admitted = admission.admits(source, Permits(1).acquire)
        yields[source] = 0 if is_admitted else yields[source] + 1
        assert yields[source] <= 3


def test_an_overload_is_reported_at_its_start_and_at_its_end():
    detector, messages = drop_policy.OverloadDetector(), []
    drops = [*range(0, 30), *range(80, 120, 10)]  # tenths of a second; one overload
    for tenths in range(300):
        if tenths in drops:
            text = detector.drop(tenths * SECOND // 10, "overflow at decode", 2)
            messages.append((tenths, text))
        messages.append((tenths, detector.end(tenths * SECOND // 10)))
    start = "frames arrive faster than they are processed; 22 dropped in 1.0 s"
    end = "overload ended: no frame dropped for 10 s; 68 dropped in 11.0 s"
    reported = [message for message in messages if message[1] is not None]
    assert reported == [(10, f"{start} (overflow at decode)"), (210, end)]


def test_occasional_drops_are_not_an_overload():
    detector = drop_policy.OverloadDetector()
    times_ns = [0, *(k * SECOND for k in range(5, 60, 2))]
    assert {detector.drop(at_ns, "stale at model", 1) for at_ns in times_ns} == {None}
    assert detector.end(100 * SECOND) is None
