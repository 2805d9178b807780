"""Which items go together: every one ends once, and no group reaches over a break."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.runtime.grouping import Windows
from headrace.runtime.item import Item


def items_of(values, source=lambda value: 0):
    return [Item(n, value, (), source(value)) for n, value in enumerate(values)]


def groups_of(windows, items):
    """(values, parts, is_dropped) of each group, the flushed ones included."""
    groups = [group for item in items for group in windows.take(item)]
    groups += windows.flush()
    return [
        (tuple(item.value for item in group.items), group.parts, group.cause is not None)
        for group in groups
    ]


def test_batches_follow_each_other_and_the_last_may_be_shorter():
    assert groups_of(Windows(length=3), items_of(range(7))) == [
        ((0, 1, 2), 3, False),
        ((3, 4, 5), 3, False),
        ((6,), 1, False),
    ]


def test_clips_overlap_and_end_only_what_no_earlier_one_ended():
    windows = Windows(length=4, hop=2, rest="drop")
    assert groups_of(windows, items_of(range(9))) == [
        ((0, 1, 2, 3), 4, False),
        ((2, 3, 4, 5), 2, False),
        ((4, 5, 6, 7), 2, False),
        ((8,), 1, True),
    ]


def test_nothing_is_left_when_every_item_was_in_a_clip():
    windows = Windows(length=4, hop=2, rest="drop")
    assert len(groups_of(windows, items_of(range(8)))) == 3


def test_a_clip_takes_every_item_of_its_stride():
    assert groups_of(Windows(length=3, stride=2), items_of(range(12))) == [
        ((0, 2, 4), 5, False),
        ((6, 8, 10), 6, False),
        ((11,), 1, True),
    ]


def test_items_between_clips_end_with_the_next_clip():
    assert groups_of(Windows(length=2, hop=5), items_of(range(7))) == [
        ((0, 1), 2, False),
        ((5, 6), 5, False),
    ]


def test_no_group_reaches_over_a_break():
    windows = Windows(length=2, breaks=lambda before, item: item.value != before.value + 1)
    assert groups_of(windows, items_of([0, 1, 2, 5, 6, 7])) == [
        ((0, 1), 2, False),
        ((2,), 1, False),
        ((5, 6), 2, False),
        ((7,), 1, False),
    ]


def test_each_key_is_grouped_by_itself():
    windows = Windows(length=2, key=lambda item: item.source, rest="drop")
    assert groups_of(windows, items_of("aAbBc", source=str.isupper)) == [
        (("a", "b"), 2, False),
        (("A", "B"), 2, False),
        (("c",), 1, True),
    ]


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
    windows = Windows(
        length=length,
        stride=stride,
        hop=hop,
        rest=rest,
        key=lambda item: item.source,
        breaks=lambda before, item: item.index in broken,
    )
    groups = groups_of(windows, items_of(range(count), source=lambda value: value % sources))
    assert sum(parts for _, parts, _ in groups) == count
    for values, _, is_dropped in groups:
        assert len({value % sources for value in values}) == 1
        if not is_dropped:
            assert len(values) <= length
            assert all(b - a == stride * sources for a, b in pairwise(values))
            between = range(values[0] + sources, values[-1] + 1, sources)
            assert not broken & set(between)
        if rest == "drop" and not is_dropped:
            assert len(values) == length


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length must be an integer >= 1, got 0"),
        ({"length": 1, "hop": 0}, "hop must be an integer >= 1, got 0"),
        ({"length": 1, "rest": "lose"}, "must be 'keep' or 'drop', got 'lose'"),
    ],
)
def test_refuses_groups_that_cannot_be(options, message):
    with pytest.raises(ConfigError, match=message):
        Windows(**options)
