import threading
from contextlib import closing, contextmanager, nullcontext
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.runtime.unordered import unordered_streams
from runtime.in_time import happens, headrace_threads


def streams(function, items, **options):
    options = {"workers": 2, "capacity": 4} | options
    return unordered_streams(lambda: nullcontext(function), items, **options)


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 6), max_size=12),
    workers=st.integers(1, 4),
    capacity=st.integers(1, 3),
)
def test_delivers_each_output_once_and_those_of_an_item_in_order(lengths, workers, capacity):
    items = [[(number, k) for k in range(n)] for number, n in enumerate(lengths)]
    found = list(streams(iter, items, workers=workers, capacity=capacity))
    assert sorted(found) == [output for item in items for output in item]
    for number, item in enumerate(items):
        assert [output for output in found if output[0] == number] == item


def test_what_is_done_first_comes_first():
    comes_last = threading.Event()

    def work(item):
        if item == "slow":
            happens(comes_last)
        yield item

    with closing(streams(work, ["slow", "quick", "quicker"], workers=2)) as outputs:
        first = [next(outputs), next(outputs)]
        comes_last.set()
        assert [*first, *list(outputs)] == ["quick", "quicker", "slow"]


def test_items_are_taken_by_who_iterates_and_not_far_ahead():
    taken, here = [], set()

    def items():
        for number in count():
            taken.append(number)
            here.add(threading.current_thread())
            yield number

    with closing(streams(lambda item: [item], items(), workers=2)) as outputs:
        assert next(outputs) in (0, 1, 2)
        assert len(taken) == 3
    assert len(here) == 1
    assert not any(thread.name.startswith("headrace-") for thread in here)


@pytest.mark.parametrize("where", ["open", "work", "items"])
def test_what_is_raised_comes_to_who_iterates_and_ends_the_threads(where):
    @contextmanager
    def opened():
        if where == "open":
            raise ZeroDivisionError
        yield work

    def work(item):
        yield item
        if where == "work":
            raise ZeroDivisionError

    def items():
        yield 1
        if where == "items":
            raise ZeroDivisionError
        yield from range(20)

    outputs = unordered_streams(opened, items(), workers=2, capacity=2)
    with pytest.raises(ZeroDivisionError):
        list(outputs)
    assert not headrace_threads()


def test_left_early_it_ends_its_threads_and_closes_what_they_keep():
    opened, closed = [], []

    @contextmanager
    def kept():
        opened.append(threading.current_thread())
        try:
            yield lambda item: (item for _ in count())
        finally:
            closed.append(threading.current_thread())

    with closing(unordered_streams(kept, range(5), workers=2, capacity=1)) as outputs:
        next(outputs)
        assert headrace_threads()
    assert not headrace_threads()
    assert sorted(opened, key=id) == sorted(closed, key=id)


@pytest.mark.parametrize("given", [{"workers": 0}, {"capacity": 0}])
def test_refuses_what_cannot_work(given):
    with pytest.raises(ConfigError, match="must be an integer >= 1, got 0"):
        streams(iter, [], **given)
