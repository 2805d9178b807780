"""A dropped item keeps its position and is counted; groups wait for a permit."""

import threading
from collections import Counter
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import StageError
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Aggregate, DroppedItem, SlidingWindows, Stage
from headrace.runtime.synchronization import CapacityLimiter
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import fails_on, happens, headrace_threads, ran, values

BLURRED = DroppedItem("blurred")


def dropping(*unwanted):
    return lambda value: BLURRED if value in unwanted else value


def windows(length, function, **options):
    return Aggregate(
        name="batch", grouping=partial(SlidingWindows, length=length), function=function, **options
    )


def assert_conserved(flow):
    assert flow.arrived == flow.delivered + sum(flow.dropped.values()) + flow.in_flight
    assert flow.in_flight >= 0


def test_a_dropped_item_keeps_its_position_and_skips_later_stages():
    seen = []
    stages = [
        Stage(name="sort out", function=dropping(1, 2), workers=3),
        Stage(name="model", function=lambda value: seen.append(value) or value),
    ]

    items, statistics, flow = ran(range(5), *stages)
    assert values(items) == [0, BLURRED, BLURRED, 3, 4]
    assert [item.index for item in items] == [0, 1, 2, 3, 4]
    assert [item.is_dropped for item in items] == [False, True, True, False, False]
    assert [len(item.spans) for item in items] == [3, 2, 2, 3, 3]
    assert items[1].spans[-1].stage == "sort out"
    assert seen == [0, 3, 4]
    assert [stage.items for stage in statistics] == [5, 3, 3]
    assert [stage.dropped for stage in statistics] == [{}, {"blurred": 2}, {}]
    assert (flow.arrived, flow.delivered, flow.in_flight) == (5, 3, 0)
    assert flow.dropped == {("sort out", "blurred"): 2}


@settings(max_examples=60)
@given(
    length=st.integers(0, 25),
    unwanted=st.lists(st.sets(st.integers(0, 24)), max_size=3),
    workers=st.integers(1, 3),
    capacity=st.integers(1, 3),
    overflow=st.sampled_from(["wait", "drop_oldest"]),
)
def test_arrived_items_are_delivered_dropped_or_in_flight(
    length, unwanted, workers, capacity, overflow
):
    """This holds at any time; items from the run were delivered or dropped."""
    drops = enumerate(dropping(*values) for values in unwanted)
    stages = [Stage(name=f"stage {n}", function=drop, workers=workers) for n, drop in drops]
    delivered, dropped = 0, Counter()
    line = Pipeline(source=range(length), stages=stages, capacity=capacity, overflow=overflow)
    with line.run() as run:
        assert_conserved(run.flow())
        for item in run:
            if item.is_dropped:
                dropped[item.spans[-1].stage, item.value.cause] += 1
            else:
                delivered += 1
            assert_conserved(run.flow())
            assert run.flow().delivered == delivered
    flow = run.flow()
    assert (flow.arrived, flow.delivered, flow.dropped) == (length, delivered, dict(dropped))
    assert flow.in_flight == 0


def test_an_abandoned_run_counts_items_in_flight():
    with Pipeline(source=range(10), capacity=1).run() as run:
        next(run)
    flow = run.flow()
    assert_conserved(flow)
    assert (flow.delivered, flow.in_flight) == (1, flow.arrived - 1)


def test_a_failed_item_stays_in_flight():
    stage = Stage(name="model", function=fails_on(0, ValueError()))
    with Pipeline(source=[0], stages=[stage]).run() as run, pytest.raises(StageError):
        list(run)
    assert (run.flow().arrived, run.flow().in_flight) == (1, 1)


def test_a_fast_source_drops_items_in_order():
    """The stage works on item 0 until the source is done; two more fit in the queue."""
    started, is_done = threading.Event(), threading.Event()

    def source():
        yield 0
        happens(started)
        yield from range(1, 10)
        is_done.set()

    stage = Stage(name="model", function=lambda value: started.set() or happens(is_done) or value)
    items, statistics, flow = ran(source(), stage, overflow="drop_oldest")
    assert [item.index for item in items] == list(range(10))
    assert [item.value for item in items if not item.is_dropped] == [0, 8, 9]
    assert {item.value for item in items if item.is_dropped} == {DroppedItem("overflow")}
    assert statistics[0].dropped == {"overflow": 7}
    assert [stage.items for stage in statistics] == [3, 3]
    assert (flow.arrived, flow.delivered, flow.in_flight) == (10, 3, 0)


def test_items_wait_in_the_queue_until_their_group_has_a_permit():
    """So older ones can be dropped there, and the newest are taken."""
    limiter = CapacityLimiter(1, clock=FakeClock())
    taken, overflowed = threading.Event(), threading.Event()

    def source():
        yield 0
        happens(taken)
        yield from range(1, 30)
        overflowed.set()

    batch = windows(1, lambda values: taken.set() or values, limiter=limiter)
    line = Pipeline(source=source(), stages=[batch], overflow="drop_oldest", capacity=1)
    found = []
    with line.run(clock=FakeClock()) as run:
        for item in run:
            if item.is_dropped:
                continue
            found += item.value
            happens(overflowed)
            limiter.release(1)
    flow = run.flow()
    assert found == [0, 29]
    assert flow.dropped == {("source", "overflow"): 28}
    assert (flow.arrived, flow.delivered, flow.in_flight) == (30, 2, 0)


def test_a_dropped_group_leaves_its_permit_to_the_next():
    limiter = CapacityLimiter(1, clock=FakeClock())
    batch = windows(
        2, lambda values: DroppedItem("odd") if values[0] % 4 else values, limiter=limiter
    )
    found = []
    with Pipeline(source=range(12), stages=[batch]).run() as run:
        for item in run:
            if not item.is_dropped:
                found.append(item.value)
                limiter.release(1)
    assert found == [[0, 1], [4, 5], [8, 9]]
    assert limiter.max_in_use == 1


def test_an_aggregate_waiting_for_a_permit_ends_with_the_run():
    batch = windows(1, list, limiter=CapacityLimiter(1, clock=FakeClock()))
    with Pipeline(source=range(10), stages=[batch]).run() as run:
        next(run)
    assert headrace_threads() == set()


def test_an_aggregate_drops_freely_while_later_stages_are_blocked():
    opened, ended = threading.Event(), threading.Event()

    def source():
        yield from range(100)
        ended.set()

    def stuck(values):
        happens(opened)
        return values

    first = windows(
        1, lambda values: values if values[0] < 2 else DroppedItem("late"), drops_freely=True
    )
    line = Pipeline(
        source=source(), stages=[first, Stage(name="stuck", function=stuck)], capacity=1
    )
    with line.run() as run:
        threading.Thread(target=lambda: (happens(ended), opened.set())).start()
        assert [item.value for item in run if not item.is_dropped] == [[0], [1]]


def test_permits_are_acquired_at_once_or_not_at_all():
    limiter = CapacityLimiter(2)
    assert limiter.acquire_nowait(2)
    assert not limiter.acquire_nowait(1)
    limiter.release(1)
    assert limiter.acquire_nowait(1)
    assert (limiter.in_use, limiter.max_in_use) == (2, 2)
    limiter.cancel()
    limiter.release(2)
    assert not limiter.acquire_nowait(1)
