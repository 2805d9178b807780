"""Many items become one; order is kept and no item is lost."""

import threading
from dataclasses import replace
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import StageError
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Aggregate, DroppedItem, Item, SlidingWindows, Span, Stage
from headrace.runtime.waitable_source import WaitableSource
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import collect, fails_on, happens, ran, values


def gathering(length, function=tuple, name="gather", **options):
    return Aggregate(
        name=name, grouping=lambda: SlidingWindows(length=length, **options), function=function
    )


def test_batches_are_renumbered_and_the_last_is_flushed():
    double = Stage(name="double", function=lambda batch: [2 * value for value in batch])
    items, stages, flow = ran(range(5), gathering(2), double)
    assert values(items) == [[0, 2], [4, 6], [8]]
    assert [(item.index, item.parts) for item in items] == [(0, 2), (1, 2), (2, 1)]
    assert [stage.items for stage in stages] == [5, 3, 3]
    assert (flow.arrived, flow.delivered, flow.in_flight) == (5, 5, 0)


def test_overlapping_clips_count_each_frame_once():
    items, stages, flow = ran(range(9), gathering(4, hop=2, rest="drop"))
    assert values(items) == [(0, 1, 2, 3), (2, 3, 4, 5), (4, 5, 6, 7), DroppedItem("incomplete")]
    assert stages[1].dropped == {"incomplete": 1}
    assert (flow.arrived, flow.delivered, flow.in_flight) == (9, 8, 0)


def test_a_span_covers_its_parts_and_sums_their_work():
    clock, second = FakeClock(), 1_000_000_000

    def read(waiter):
        for value in range(2):
            waiter.until((value + 1) * 10 * second)
            clock.advance(1)
            yield value

    def combine(batch):
        clock.advance(5)
        return batch

    [item], *_ = ran(WaitableSource(read=read), gathering(2, combine), how={"clock": clock})
    read = Span("source", 10 * second, 21 * second, 2 * second)
    assert item.spans == (read, Span("gather", 21 * second, 26 * second))
    assert [span.work_ns for span in item.spans] == [2 * second, 5 * second]


def test_a_stage_that_drops_a_group_counts_all_of_its_parts():
    items, stages, flow = ran(range(4), gathering(2, lambda batch: DroppedItem("dark")))
    assert values(items) == [DroppedItem("dark")] * 2
    assert stages[1].dropped == {"dark": 4}
    assert flow.dropped == {("gather", "dark"): 4}


def test_items_dropped_before_are_passed_on():
    odd = Stage(name="odd", function=lambda value: value if value % 2 else DroppedItem("even"))
    items, _, flow = ran(range(4), odd, gathering(2))
    assert values(items) == [DroppedItem("even"), DroppedItem("even"), (1, 3)]
    assert [item.index for item in items] == [0, 1, 2]
    assert (flow.delivered, flow.dropped) == (2, {("odd", "even"): 2})


def fail(*_):
    raise ValueError("no clip")


@pytest.mark.parametrize(
    ("stages", "message", "got"),
    [
        (
            [Stage(name="read", function=fails_on(5, OSError())), gathering(2)],
            "'read' failed on item 5: OSError",
            [(0, 1), (2, 3), (4,)],
        ),
        ([gathering(2, fail)], "'gather' failed on item 0: ValueError: no clip", []),
        ([gathering(2, key=fail)], "'gather' failed on item 0: ValueError: no clip", []),
    ],
    ids=["before a group, which is flushed", "function", "grouping"],
)
def test_a_failure_follows_earlier_groups(stages, message, got):
    found = []
    with pytest.raises(StageError, match=f"^stage {message}"):
        collect(Pipeline(source=count(), stages=stages), found)
    assert found == got


def test_each_run_has_a_new_grouping():
    line = Pipeline(source=WaitableSource(read=lambda waiter: range(3)), stages=[gathering(2)])
    for _ in range(2):
        with line.run() as run:
            assert values(run) == [(0, 1), (2,)]


def test_an_aggregate_that_does_not_wait_takes_the_arrived_items():
    """The stage works on the first batch until all other items have arrived."""
    started, rest_is_there = threading.Event(), threading.Event()

    def source():
        yield 0
        happens(started)
        yield from range(1, 5)
        rest_is_there.set()

    def function(batch):
        started.set()
        happens(rest_is_there)
        return tuple(batch)

    items, _, flow = ran(source(), replace(gathering(3, function), waits=False), capacity=4)
    assert values(items) == [(0,), (1, 2, 3), (4,)]
    assert (flow.delivered, flow.in_flight) == (5, 0)


@settings(max_examples=60)
@given(
    length=st.integers(0, 24),
    batch=st.integers(1, 4),
    hop=st.none() | st.integers(1, 5),
    rest=st.sampled_from(["keep", "drop"]),
    unwanted=st.sets(st.integers(0, 24)),
)
def test_groups_of_groups_lose_no_item(length, batch, hop, rest, unwanted):
    stages = [
        Stage(name="sort out", function=lambda v: DroppedItem("odd") if v in unwanted else v),
        gathering(batch, hop=hop, rest=rest),
        gathering(2, name="gather again"),
    ]
    items, _, flow = ran(range(length), *stages)
    assert [item.index for item in items] == list(range(len(items)))
    assert flow.in_flight == 0
    assert flow.arrived == flow.delivered + sum(flow.dropped.values())
    assert flow.delivered == sum(item.parts for item in items if not item.is_dropped)


def items_of(values, source=lambda value: 0):
    return [Item(n, value, (), source(value)) for n, value in enumerate(values)]


def groups_of(windows, items):
    """Return (values, parts, is_dropped) of each group, including flushed ones."""
    groups = [group for item in items for group in windows.add(item)]
    groups += windows.flush()
    return [(tuple(values(group.items)), group.parts, group.cause is not None) for group in groups]


def drops(**options):
    return SlidingWindows(rest="drop", **options)


def by_source(item):
    return item.source


def breaks(before, item):
    return ord(item.value) != ord(before.value) + 1


@pytest.mark.parametrize(
    ("windows", "items", "groups", "parts", "dropped"),
    [
        (SlidingWindows(length=3), "0123456", "012 345 6", [3, 3, 1], 0),
        (drops(length=4, hop=2), "012345678", "0123 2345 4567 8", [4, 2, 2, 1], 1),
        (drops(length=4, hop=2), "01234567", "0123 2345 4567", [4, 2, 2], 0),
        (SlidingWindows(length=3, stride=2), "abcdefghijkl", "ace gik l", [5, 6, 1], 1),
        (SlidingWindows(length=2, hop=5), "0123456", "01 56", [2, 5], 0),
        (SlidingWindows(length=2, breaks=breaks), "012567", "01 2 56 7", [2, 1, 2, 1], 0),
        (drops(length=2, key=by_source), "aAbBc", "ab AB c", [2, 2, 1], 1),
    ],
    ids=["batches", "overlap", "nothing left", "stride", "between clips", "break", "key"],
)
def test_windows_end_each_item_once(windows, items, groups, parts, dropped):
    """Parts count the items that end with the group; the last group may be dropped."""
    groups = [tuple(group) for group in groups.split()]
    ends = [False] * (len(groups) - dropped) + [True] * dropped
    found = groups_of(windows, items_of(items, str.isupper))
    assert found == list(zip(groups, parts, ends, strict=True))


@given(
    count=st.integers(0, 40),
    length=st.integers(1, 5),
    stride=st.integers(1, 3),
    hop=st.none() | st.integers(1, 9),
    rest=st.sampled_from(["keep", "drop"]),
    broken=st.sets(st.integers(0, 39)),
    sources=st.integers(1, 3),
)
def test_every_item_ends_once(count, length, stride, hop, rest, broken, sources):
    cuts = {"key": by_source, "breaks": lambda before, item: item.index in broken}
    windows = SlidingWindows(length=length, stride=stride, hop=hop, rest=rest, **cuts)
    groups = groups_of(windows, items_of(range(count), source=lambda value: value % sources))
    assert sum(parts for _, parts, _ in groups) == count
    for group, _, is_dropped in groups:
        assert len({value % sources for value in group}) == 1
        if not is_dropped:
            assert len(group) <= length
            assert all(b - a == stride * sources for a, b in pairwise(group))
            assert not broken & set(range(group[0] + sources, group[-1] + 1, sources))
        if rest == "drop" and not is_dropped:
            assert len(group) == length
