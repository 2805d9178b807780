"""Waits for a time, for room, for a turn and for the newest value; clocks."""

import asyncio
import threading

import pytest

from headrace.runtime.asgi_server import UpdateCounter
from headrace.runtime.clock import SYSTEM_CLOCK, SystemClock, WallTime, iso_text
from headrace.runtime.queue import Cancelled
from headrace.runtime.synchronization import CapacityLimiter, Sequencer, call_every
from headrace.runtime.waitable_source import Waiter
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import Call, WatchedClock, happens

SECOND = 1_000_000_000


class ByHand(WatchedClock):
    """Waits for real until notified; only `advance` moves its time."""

    def wait_until(self, condition, moment_ns):
        condition.wait()


@pytest.mark.parametrize(("moment", "waited", "resumed"), [(7, 2, 7), (5, 0, 0)])
def test_until_waits_for_a_future_moment_and_counts_it(moment, waited, resumed):
    clock = FakeClock(now_ns=5 * SECOND)
    waiter = Waiter(clock)
    waiter.until(moment * SECOND)
    found = clock.now_ns(), waiter.waited_ns, waiter.resumed_ns
    assert found == (moment * SECOND, waited * SECOND, resumed * SECOND)


def test_wait_for_waits_for_its_condition():
    clock, things = ByHand(), []
    waiter = Waiter(clock)
    call = clock.start_waiting(waiter, lambda: waiter.wait_for(lambda: bool(things)))
    clock.advance(3)
    assert waiter.waited_ns == 3 * SECOND  # also while it lasts
    things.append("packet")
    waiter.notify()
    assert call.result() is True
    assert waiter.waited_ns == 3 * SECOND


def test_wait_for_returns_false_at_its_moment():
    assert Waiter(FakeClock()).wait_for(lambda: False, until_ns=SECOND) is False


def test_a_notification_does_not_end_until():
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


def test_system_clock_waits_end_at_their_moment_or_when_woken():
    waiter = Waiter()
    waiter.pause(0.001)
    assert waiter.waited_ns >= 1_000_000
    started = threading.Event()

    def is_there():
        started.set()
        return False

    call = Call(lambda: waiter.wait_for(is_there, until_ns=waiter.clock.now_ns() + 10**15))
    happens(started)
    waiter.wake()
    with pytest.raises(Cancelled):
        call.result()


def test_a_woken_waiter_waits_no_more():
    waiter = Waiter(FakeClock())
    assert not waiter.is_woken
    waiter.wake()
    assert waiter.is_woken
    with pytest.raises(Cancelled):
        waiter.until(SECOND)
    with pytest.raises(Cancelled):
        waiter.wait_for(lambda: True)


def test_acquire_waits_for_all_its_permits():
    limiter = CapacityLimiter(10)
    limiter.acquire(6)
    waiting = Call(lambda: limiter.acquire(7))
    limiter.release(2)
    assert limiter.in_use == 4
    limiter.release(1)
    waiting.result()
    assert (limiter.in_use, limiter.max_in_use) == (10, 10)


def test_zero_permits_are_always_free():
    limiter = CapacityLimiter(1)
    limiter.acquire(1)
    limiter.acquire(0)
    assert limiter.in_use == 1


def test_cancel_wakes_waiting_threads_and_refuses_later_ones():
    limiter = CapacityLimiter(1)
    limiter.acquire(1)
    waiting = Call(lambda: limiter.acquire(1))
    limiter.cancel()
    with pytest.raises(Cancelled):
        waiting.result()
    with pytest.raises(Cancelled):
        limiter.acquire(0)


def test_blocked_seconds_count_the_wait():
    clock = WatchedClock()
    limiter = CapacityLimiter(1, clock=clock)
    limiter.acquire(1)
    waiting = clock.start_waiting(limiter, lambda: limiter.acquire(1))
    clock.advance(3)
    limiter.release(1)
    waiting.result()
    assert limiter.blocked_seconds == 3


def test_a_ticket_waits_for_earlier_ones_of_its_key():
    sequencer, done = Sequencer(), []
    second_waits = threading.Event()

    def second():
        second_waits.set()
        with sequencer.turn("a", 1):
            done.append("a1")

    waiting = Call(second)
    happens(second_waits)
    with sequencer.turn("b", 0):
        done.append("b0")
    with sequencer.turn("a", 0):
        done.append("a0")
    waiting.result()
    assert done == ["b0", "a0", "a1"]


def test_a_thread_waiting_for_its_ticket_can_be_cancelled():
    sequencer = Sequencer()
    call = Call(lambda: sequencer.turn("a", 1).__enter__())
    sequencer.cancel()
    with pytest.raises(Cancelled):
        call.result()


def test_a_failed_ticket_is_over():
    sequencer = Sequencer()
    with pytest.raises(KeyError), sequencer.turn("a", 0):
        raise KeyError
    with sequencer.turn("a", 1):
        pass


LONG = 30.0


def test_a_coroutine_is_woken_from_another_thread():
    updates = UpdateCounter()

    async def wait():
        waiting = [asyncio.create_task(updates.wait(0, LONG)) for _ in range(3)]
        await asyncio.sleep(0)
        assert len(updates._waiting) == 3
        counting = Call(updates.increase)
        found = await asyncio.gather(*waiting)
        counting.result()
        return found

    assert asyncio.run(wait()) == [True] * 3
    assert (updates.number, updates._waiting) == (1, set())


def test_wait_has_a_timeout():
    updates = UpdateCounter()
    updates.increase()

    async def wait():
        return await updates.wait(0, LONG), await updates.wait(1, 0.001)

    assert asyncio.run(wait()) == (True, False)
    assert updates._waiting == set()


def test_close_ends_all_waits():
    updates = UpdateCounter()

    async def wait():
        waiting = asyncio.create_task(updates.wait(0, LONG))
        await asyncio.sleep(0)
        updates.close()
        return await waiting, await updates.wait(0, LONG)

    assert asyncio.run(wait()) == (False, False)


def test_a_cancelled_wait_is_forgotten():
    updates = UpdateCounter()

    async def wait():
        waiting = asyncio.create_task(updates.wait(0, LONG))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        updates.increase()

    asyncio.run(wait())
    assert updates._waiting == set()


def test_call_every_calls_until_the_block_ends():
    looked, is_enough = [], threading.Event()

    def look():
        looked.append(threading.current_thread().name)
        if len(looked) == 3:
            is_enough.set()

    with call_every(look, 0.01, first=[0.001]):
        happens(is_enough)
    assert set(looked) == {"headrace-ticker"}
    assert not [each for each in threading.enumerate() if each.name == "headrace-ticker"]


def test_system_clock_never_goes_back():
    readings = [SYSTEM_CLOCK.now_ns() for _ in range(1000)]
    assert readings == sorted(readings)


def test_wall_clock_counts_from_1970():
    year_2025, year_2100 = 1_735_689_600, 4_102_444_800
    assert year_2025 < SystemClock().wall_seconds() < year_2100


def test_wall_times_ignore_changes_of_the_machines_clock():
    class Set(FakeClock):
        def wall_seconds(self):
            return super().wall_seconds() - (3600 if self.now_ns() else 0)

    clock = Set()
    wall = WallTime.of(clock)
    clock.advance(1.5)
    assert iso_text(wall.at(clock.now_ns())) == "2023-11-14T22:13:21.500000+00:00"
