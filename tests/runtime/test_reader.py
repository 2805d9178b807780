"""What nobody can wake is read in a thread of its own, which holds nobody up and ends by itself."""

import threading

import pytest

from headrace.runtime.queue import Cancelled, Closed
from headrace.runtime.reader import Reader
from headrace.runtime.waiter import Waiter
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import Call, happens, in_time


def reader_of(read, waiter=None, keep=10):
    waiter = waiter or Waiter(FakeClock())
    return Reader("test", read, waiter, keep=keep, instead=lambda value: ("dropped", value))


def taken(reader):
    found = []
    while True:
        try:
            found.append(in_time(reader.take))
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
