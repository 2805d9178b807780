"""Jobs go where they are done soonest, by rates that follow what is measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.planning.soonest import TRY_AGAIN, Queue, Rates, soonest

SECONDS = st.floats(0.001, 100)
TABLES = st.lists(st.fixed_dictionaries({"cpu": SECONDS, "gpu": SECONDS}), min_size=1, max_size=40)
AT_ONCE = st.fixed_dictionaries({"cpu": st.integers(1, 8), "gpu": st.integers(1, 4)})


def makespan(jobs, at_once, ways=("cpu", "gpu")):
    """Return when the last of the jobs is done, and where each went; all wait from the start."""
    left = {way: [] for way in ways}
    ended, went = 0.0, []
    for job in jobs:
        queues = {way: Queue(at_once=at_once[way], left=tuple(each)) for way, each in left.items()}
        way = soonest(queues, job)
        ended = max(ended, queues[way].done_in(job[way]))
        left[way].append(job[way])
        went.append(way)
    return ended, went


@given(jobs=TABLES, at_once=AT_ONCE)
def test_both_together_never_end_later_than_the_better_of_the_two_alone(jobs, at_once):
    together, went = makespan(jobs, at_once)
    alone = [makespan(jobs, at_once, [way])[0] for way in ("cpu", "gpu")]
    assert together <= min(alone) * (1 + 1e-9)
    assert makespan(jobs, at_once) == (together, went)


@given(jobs=TABLES, at_once=AT_ONCE, way=st.sampled_from(["cpu", "gpu"]))
def test_no_job_goes_where_it_cannot_be_done(jobs, at_once, way):
    assert makespan(jobs, at_once, [way])[1] == [way] * len(jobs)


def test_a_job_waits_for_the_first_place_that_is_free():
    assert Queue(at_once=2, left=()).done_in(3) == 3
    assert Queue(at_once=2, left=(5,)).done_in(3) == 3
    assert Queue(at_once=2, left=(5, 4)).done_in(3) == 7
    assert Queue(at_once=2, left=(5, 4, 2)).done_in(3) == 8


def test_a_fast_way_is_left_for_a_slow_one_once_its_queue_is_longer():
    seconds = {"cpu": 1.0, "gpu": 0.25}
    went = makespan([seconds] * 12, {"cpu": 2, "gpu": 1})[1]
    assert went[:3] == ["gpu", "gpu", "gpu"]
    assert (went.count("cpu"), went.count("gpu")) == (4, 8)


def test_equal_ways_give_the_one_that_is_named_first():
    queues = {"cpu": Queue(at_once=1), "gpu": Queue(at_once=1)}
    assert soonest(queues, {"cpu": 1.0, "gpu": 1.0}) == "cpu"


def test_what_is_not_measured_yet_is_estimated_by_what_it_begins_with():
    rates = Rates(start={"cpu": 2.0, "gpu": 0.5})
    assert rates.seconds("gpu", "h264", 6.0) == 3.0
    after = rates.with_job("gpu", "h264", 4.0, 1.0)
    assert after.seconds("gpu", "h264", 6.0) == pytest.approx(1.5)
    assert after.seconds("gpu", "hevc", 6.0) == 3.0
    assert after.seconds("cpu", "h264", 6.0) == 12.0
    assert rates.seconds("gpu", "h264", 6.0) == 3.0


@given(
    before=st.lists(st.tuples(st.floats(0.1, 50), st.floats(1e-4, 1)), max_size=30),
    rate=st.floats(1e-4, 1),
)
def test_a_rate_that_changes_is_followed(before, rate):
    rates = Rates(start={"cpu": 1.0})
    for megapixels, other in before:
        rates = rates.with_job("cpu", "h264", megapixels, megapixels * other)
    old = rates.seconds("cpu", "h264", 1.0)
    for _ in range(400):
        rates = rates.with_job("cpu", "h264", 10.0, 10.0 * rate)
    new = rates.seconds("cpu", "h264", 1.0)
    assert abs(new - rate) <= 0.02 * abs(old - rate) + 1e-9


def test_each_way_is_to_be_tried_with_each_codec_once_and_again_when_it_was_long_ago():
    rates = Rates(start={"cpu": 1.0, "gpu": 1.0})
    assert rates.is_unknown("gpu", "h264")
    rates = rates.with_job("gpu", "h264", 1.0, 1.0)
    assert not rates.is_unknown("gpu", "h264")
    assert rates.is_unknown("cpu", "h264")
    assert rates.is_unknown("gpu", "hevc")
    for _ in range(TRY_AGAIN - 1):
        rates = rates.with_job("cpu", "h264", 1.0, 1.0)
        assert not rates.is_unknown("gpu", "h264")
    rates = rates.with_job("cpu", "h264", 1.0, 1.0)
    assert rates.is_unknown("gpu", "h264")
