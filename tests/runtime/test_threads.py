"""No thread outlives what it belongs to; a reader nobody can wake holds nobody up."""

import threading
import weakref

import pytest

from headrace.errors import StageError
from headrace.runtime.queue import BoundedQueue, Cancelled, Closed
from headrace.runtime.reader import Reader
from headrace.runtime.threads import ThreadGroup, iterating
from headrace.runtime.waiter import Waiter
from headrace.runtime.watch import Watch
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import TIMEOUT_SECONDS, Call, happens, printed


def test_no_thread_outlives_the_block():
    stop = threading.Event()
    with ThreadGroup(stop.set) as threads:
        for worker in range(3):
            threads.start(f"work-{worker}", lambda: happens(stop))
        names = {thread.name for thread in threading.enumerate()}
        assert {"headrace-work-0", "headrace-work-1", "headrace-work-2"} <= names
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace")]


def test_an_exception_in_the_block_ends_the_threads_and_goes_on():
    stop = threading.Event()

    def fail():
        with ThreadGroup(stop.set) as threads:
            threads.start("work", lambda: happens(stop))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace")]


def test_a_group_that_ended_is_not_kept():
    stop = threading.Event()
    with ThreadGroup(stop.set) as threads:
        threads.start("work", lambda: happens(stop))
    alive = weakref.ref(threads)
    del threads
    assert alive() is None


def test_one_of_the_threads_may_close_the_group():
    """As the garbage collector does, in whatever thread it runs; then nobody is waited for."""
    stop, closed = threading.Event(), threading.Event()
    with ThreadGroup(stop.set) as threads:

        def work():
            threads.close()
            closed.set()

        threads.start("waits", lambda: happens(closed))
        threads.start("closes", work)
        happens(closed)
    assert stop.is_set()


def test_a_block_that_nobody_leaves_does_not_keep_the_program_from_ending():
    script = f"""
import threading
from headrace.runtime.threads import ThreadGroup
stop = threading.Event()
def work():
    stop.wait({TIMEOUT_SECONDS})
    print("told to stop" if stop.is_set() else "forgotten", flush=True)
threads = ThreadGroup(stop.set).__enter__()
threads.start("work", work)
"""
    assert printed(script) == "told to stop\n"


def test_iterating_closes_a_generator_where_it_ran():
    closed_in = []

    def numbers():
        try:
            yield from range(10)
        finally:
            closed_in.append(threading.current_thread())

    with iterating(numbers()) as values:
        value, thread = next(values), threading.current_thread()
    assert value == 0
    assert closed_in == [thread]


def test_iterating_raises_what_iter_raises_with_the_first_value():
    with iterating(5) as values, pytest.raises(TypeError, match="not iterable"):
        next(values)


def reader_of(read, waiter=None, keep=10):
    waiter = waiter or Waiter(FakeClock())
    return Reader("test", read, waiter, keep=keep, instead=lambda value: ("dropped", value))


def taken(reader):
    found = []
    while True:
        try:
            found.append(reader.take())
        except Closed:
            return found


def test_hands_over_what_it_reads_then_ends():
    reader = reader_of(lambda _: (k for k in range(5)))
    assert taken(reader) == [0, 1, 2, 3, 4]
    assert reader.error is None


def test_what_ends_it_is_kept():
    def read(_):
        yield 1
        raise ValueError("the cable")

    reader = reader_of(read)
    assert taken(reader) == [1]
    assert str(reader.error) == "the cable"


def test_never_waits_for_who_takes_and_keeps_the_newest():
    is_read = threading.Event()

    def read(_):
        yield from range(6)
        is_read.set()

    reader = reader_of(read, keep=2)
    happens(is_read)
    assert taken(reader) == [*(("dropped", k) for k in range(4)), 4, 5]


def test_what_is_small_always_comes_through():
    is_read = threading.Event()

    def read(_):
        yield from range(6)
        is_read.set()

    reader = Reader("test", read, Waiter(FakeClock()), keep=1, instead=lambda value: None)
    happens(is_read)
    assert taken(reader) == [0, 1, 2, 3, 4, 5]


def test_a_moment_may_come_first():
    goes_on = threading.Event()

    def read(_):
        happens(goes_on)
        yield 1

    reader = reader_of(read)
    with pytest.raises(TimeoutError):
        reader.take(until_ns=1)
    goes_on.set()
    assert taken(reader) == [1]


def test_waking_the_waiter_ends_a_take_at_once_and_the_thread_ends_by_itself():
    goes_on, is_closed = threading.Event(), threading.Event()

    def read(_):
        try:
            happens(goes_on)
            yield 1
        finally:
            is_closed.set()

    waiter = Waiter()
    reader = reader_of(read, waiter)
    call = Call(reader.take)
    waiter.wake()
    with pytest.raises(Cancelled):
        call.result()
    reader.give_up()
    goes_on.set()
    happens(is_closed)


def test_giving_up_ends_what_the_thread_itself_waits_for():
    ended = threading.Event()

    def read(waiter):
        try:
            waiter.pause(10_000)
            yield 1
        finally:
            ended.set()

    reader = reader_of(read, Waiter())
    reader.give_up()
    happens(ended)


def test_who_hangs_is_told_by_the_clock_it_was_given():
    clock = FakeClock()
    watch = Watch(0.001, str, clock)
    abandoned = []
    watch.abandon = abandoned.append
    watch.works("worker-1", "late.mp4")
    clock.advance(50)
    watch.works("worker-2", "new.mp4")
    clock.advance(0.0004)
    empty = BoundedQueue(1, "outputs")
    with pytest.raises(StageError, match=r"worker worker-1 has been at late\.mp4 for 50 s"):
        next(watch.taken_from(empty))
    assert abandoned == ["worker-1"]
