"""A wait is counted, ends at its moment, and can be ended by others."""

import threading

import pytest

from headrace.runtime.queue import Cancelled
from headrace.runtime.waiter import Waiter
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import Call, WatchedClock, in_time

SECOND = 1_000_000_000


class ByHand(WatchedClock):
    """Waits really, until the test notifies: only `advance` moves it."""

    def wait_until(self, condition, moment_ns):
        condition.wait()


def test_waits_until_a_moment_and_counts_it():
    clock = FakeClock(now_ns=5 * SECOND)
    waiter = Waiter(clock)
    waiter.until(7 * SECOND)
    assert (clock.now_ns(), waiter.waited_ns, waiter.resumed_ns) == (7 * SECOND, 2 * SECOND, 7e9)


def test_a_moment_that_is_past_costs_no_wait():
    clock = FakeClock(now_ns=5 * SECOND)
    waiter = Waiter(clock)
    waiter.until(5 * SECOND)
    assert (clock.now_ns(), waiter.waited_ns, waiter.resumed_ns) == (5 * SECOND, 0, 0)


def test_pauses_for_some_seconds():
    clock = FakeClock(now_ns=SECOND)
    Waiter(clock).pause(0.5)
    assert clock.now_ns() == 1.5 * SECOND


def test_waits_until_something_is_there():
    clock, things = ByHand(), []
    waiter = Waiter(clock)
    call = clock.start_waiting(waiter, lambda: waiter.wait_for(lambda: bool(things)))
    clock.advance(3)
    assert waiter.waited_ns == 3 * SECOND  # also while it lasts
    things.append("packet")
    waiter.notify()
    assert call.result() is True
    assert waiter.waited_ns == 3 * SECOND


def test_says_when_the_moment_came_first():
    waiter = Waiter(FakeClock())
    assert waiter.wait_for(lambda: False, until_ns=SECOND) is False


def test_a_notice_before_the_moment_ends_no_wait_for_the_moment():
    clock = ByHand()
    waiter = Waiter(clock)
    call = clock.start_waiting(waiter, lambda: waiter.until(2 * SECOND))
    clock.advance(1)
    waiter.notify()
    clock.advance(1)
    waiter.notify()
    call.result()
    assert waiter.waited_ns == 2 * SECOND


@pytest.mark.parametrize("moment_ns", [None, 10**18])
def test_waking_ends_a_wait_in_progress(moment_ns):
    clock = ByHand()
    waiter = Waiter(clock)
    call = clock.start_waiting(waiter, lambda: waiter.wait_for(lambda: False, until_ns=moment_ns))
    waiter.wake()
    with pytest.raises(Cancelled):
        call.result()


def test_by_the_clock_of_the_machine_a_wait_ends_at_its_moment_and_when_woken():
    waiter = Waiter()
    in_time(lambda: waiter.pause(0.001))
    assert waiter.waited_ns >= 1_000_000
    begun = threading.Event()

    def is_there():
        begun.set()
        return False

    call = Call(lambda: waiter.wait_for(is_there, until_ns=waiter.clock.now_ns() + 10**15))
    assert begun.wait(30)
    waiter.wake()
    with pytest.raises(Cancelled):
        call.result()


def test_who_was_woken_waits_no_more():
    waiter = Waiter(FakeClock())
    assert not waiter.is_woken
    waiter.wake()
    assert waiter.is_woken
    with pytest.raises(Cancelled):
        waiter.until(SECOND)
    with pytest.raises(Cancelled):
        waiter.wait_for(lambda: True)
