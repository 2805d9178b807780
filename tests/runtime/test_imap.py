import gc
import threading
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from itertools import chain, count, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.runtime.imap import imap
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.queue import BoundedQueue
from headrace.runtime.synchronization import CapacityLimiter
from runtime.in_time import TIMEOUT_SECONDS, happens, headrace_threads, left_by


def streams(function, items, **options):
    options = {"workers": 2, "capacity": 4} | options
    return imap(lambda: nullcontext(function), items, **options)


unordered = partial(streams, is_ordered=False)


@settings(max_examples=100)
@given(
    items=st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=12),
    workers=st.integers(1, 4),
    capacity=st.integers(1, 3),
    lookahead=st.none() | st.integers(1, 5),
)
def test_imap_returns_the_outputs_of_a_loop(items, workers, capacity, lookahead):
    outputs = streams(iter, items, workers=workers, capacity=capacity, lookahead=lookahead)
    assert list(outputs) == list(chain(*items))


def test_imap_keeps_the_order():
    second_done = threading.Event()

    def function(item):
        if item == 1:
            happens(second_done)
        yield from (10 * item, 10 * item + 1)
        if item == 2:
            second_done.set()

    assert list(streams(function, [1, 2])) == [10, 11, 20, 21]


@settings(max_examples=20)
@given(workers=st.integers(1, 3), capacity=st.integers(1, 3), lookahead=st.integers(1, 4))
def test_imap_bounds_waiting_outputs(workers, capacity, lookahead):
    lock = threading.Lock()
    produced = threading.Semaphore(0)
    waiting = most = 0

    def function(item):
        nonlocal waiting, most
        for number in range(20):
            with lock:
                waiting += 1
                most = max(most, waiting)
            produced.release()
            yield number

    options = {"workers": workers, "capacity": capacity, "lookahead": lookahead}
    for position, _ in enumerate(streams(function, range(8), **options)):
        if position == 0:  # wait until the workers have filled their streams
            for _ in range(1 + min(workers, 1 + lookahead) * (capacity + 1)):
                assert produced.acquire(timeout=TIMEOUT_SECONDS)
        with lock:
            waiting -= 1
    # The first output counts as waiting until its turn in this loop.
    assert most <= (1 + lookahead) * capacity + workers + 1


def test_imap_keeps_no_delivered_output():
    def streams_alive():
        return sum(type(thing) is BoundedQueue for thing in gc.get_objects())

    before = streams_alive()
    with closing(streams(lambda item: [item], count(), lookahead=2)) as outputs:
        for _ in islice(outputs, 100):
            pass
        assert streams_alive() - before < 20


def test_imap_reads_items_up_to_its_lookahead():
    read = []

    def items():
        for item in count():
            read.append(item)
            yield item

    with closing(streams(lambda item: [item], items(), workers=2, lookahead=3)) as outputs:
        assert list(islice(outputs, 5)) == [0, 1, 2, 3, 4]
    # 4 delivered, 1 at the consumer, 3 ahead, 1 waiting for room.
    assert len(read) <= 9


def test_imap_delivers_all_outputs_before_a_failure():
    failure = OSError("broken")
    second_failed = threading.Event()

    def function(item):
        if item == 1:
            happens(second_failed)
        yield f"{item}a"
        if item == 2:
            second_failed.set()
            raise failure
        yield f"{item}b"

    outputs = streams(function, [1, 2, 3])
    assert list(islice(outputs, 3)) == ["1a", "1b", "2a"]
    with pytest.raises(OSError, match="broken") as caught:
        next(outputs)
    assert caught.value is failure
    assert not headrace_threads()


doors = pytest.mark.parametrize("door", [imap, partial(imap, is_ordered=False)])


@doors
@pytest.mark.parametrize("where", ["open", "work", "items"])
def test_exceptions_reach_the_consumer_and_end_the_threads(door, where):
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

    got = []
    with pytest.raises(ZeroDivisionError):
        got.extend(door(opened, items(), workers=2, capacity=2))
    assert door is not imap or got == [1] * (where != "open")
    assert not headrace_threads()


class Workers:
    """Opens workers and records their threads."""

    def __init__(self):
        self.opened, self.closed = [], []
        self.together = threading.Barrier(2)

    @contextmanager
    def open(self):
        self.opened.append(threading.current_thread().name)
        try:
            yield self.run
        finally:
            self.closed.append(threading.current_thread().name)

    def run(self, item):
        self.together.wait(TIMEOUT_SECONDS)
        yield item, threading.current_thread().name


@doors
def test_each_worker_is_opened_and_closed_once_in_its_own_thread(door):
    workers = Workers()
    got = list(door(workers.open, range(6), workers=2, capacity=1, name="decode"))
    assert sorted(item for item, _ in got) == list(range(6))
    assert {name for _, name in got} == {"headrace-decode-0", "headrace-decode-1"}
    assert sorted(workers.opened) == sorted(workers.closed) == sorted({name for _, name in got})
    assert list(door(workers.open, [], workers=2, capacity=1)) == []
    assert len(workers.opened) == 2, "a worker without an item is not opened"


def endless(log):
    """A function with endless outputs, and endless items, which log the threads they ran in."""

    def note(name):
        log.append((name, threading.current_thread().name))

    def function(item):
        note("open")
        try:
            yield from count()
        finally:
            note("close")

    def items():
        note("open items")
        try:
            yield from count()
        finally:
            note("close items")

    return function, items()


@doors
@pytest.mark.parametrize("error", [None, KeyboardInterrupt, ValueError])
def test_leaving_early_closes_generators_in_their_threads(door, error):
    log = []
    function, items = endless(log)
    outputs = door(lambda: nullcontext(function), items, workers=3, capacity=1)
    with left_by(error) as leave, closing(outputs):
        assert next(outputs) == 0
        leave()
    assert not headrace_threads()
    opened = sorted(f"{name} {thread}" for name, thread in log if name.startswith("open"))
    closed = sorted(f"{name} {thread}" for name, thread in log if name.startswith("close"))
    assert door is not imap or "open items headrace-streams-items" in opened
    assert [entry.replace("close", "open") for entry in closed] == opened


@pytest.mark.parametrize(
    "begin",
    [
        lambda: streams(*endless([]), capacity=1),
        lambda: unordered(*endless([]), capacity=1),
        lambda: Pipeline(source=count()).run(),
    ],
    ids=["ordered", "unordered", "pipeline"],
)
def test_threads_start_at_the_first_next_and_end_with_the_consumer(begin):
    outputs = begin()
    assert not headrace_threads()
    next(outputs)
    assert headrace_threads()
    outputs = None
    assert not headrace_threads()


def test_an_error_is_raised_while_items_wait_for_room():
    limiter, is_full = CapacityLimiter(1), threading.Event()

    def items():
        limiter.acquire(1)
        yield 0
        is_full.set()
        limiter.acquire(1)
        yield 1

    def fail(item):
        happens(is_full)
        raise LookupError(item)

    outputs = streams(fail, items(), workers=1, capacity=1, on_cancel=limiter.cancel)
    with pytest.raises(LookupError), closing(outputs):
        next(outputs)


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 6), max_size=12),
    workers=st.integers(1, 4),
    capacity=st.integers(1, 3),
)
def test_unordered_outputs_are_in_order_within_an_item(lengths, workers, capacity):
    items = [[(number, k) for k in range(n)] for number, n in enumerate(lengths)]
    found = list(unordered(iter, items, workers=workers, capacity=capacity))
    assert sorted(found) == [output for item in items for output in item]
    for number, item in enumerate(items):
        assert [output for output in found if output[0] == number] == item


def test_unordered_outputs_are_delivered_as_completed():
    comes_last = threading.Event()

    def work(item):
        if item == "slow":
            happens(comes_last)
        yield item

    with closing(unordered(work, ["slow", "quick", "quicker"], workers=2)) as outputs:
        first = [next(outputs), next(outputs)]
        comes_last.set()
        assert [*first, *list(outputs)] == ["quick", "quicker", "slow"]


def test_unordered_items_are_read_by_the_consumer_not_far_ahead():
    taken, here = [], set()

    def items():
        for number in count():
            taken.append(number)
            here.add(threading.current_thread())
            yield number

    with closing(unordered(lambda item: [item], items(), workers=2)) as outputs:
        assert next(outputs) in (0, 1, 2)
        assert len(taken) == 3
    assert len(here) == 1
    assert not any(thread.name.startswith("headrace-") for thread in here)
