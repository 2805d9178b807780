"""A queue passes items on, waits or drops if full, and ends for all its users."""

import threading
import weakref
from collections import Counter
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.runtime.queue import BoundedQueue, Cancelled, Closed, Overflow
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import TIMEOUT_SECONDS, Call, WatchedClock


def filled(*items, capacity=8, **options):
    queue = BoundedQueue(capacity, "numbers", **options)
    for item in items:
        queue.put(item)
    return queue


def put(item, **options):
    return lambda queue: queue.put(item, **options)


def take(queue):
    return queue.get()


@pytest.mark.parametrize(
    ("inside", "waits", "count", "wake", "outcome"),
    [
        ([], take, 1, put("late"), "late"),
        (["first"], put("second"), 1, take, None),
        ([], list, 3, BoundedQueue.close, []),
        ([1], put(2), 1, BoundedQueue.close, Closed),
        ([], take, 3, BoundedQueue.cancel, Cancelled),
        ([1], put(2), 3, BoundedQueue.cancel, Cancelled),
        ([], put("item 1", position=1), 1, BoundedQueue.cancel, Cancelled),
    ],
)
def test_waits_end_by_an_item_by_room_and_by_close(inside, waits, count, wake, outcome):
    clock = WatchedClock()
    queue = filled(*inside, capacity=1, clock=clock)
    calls = [clock.start_waiting(queue, lambda: waits(queue)) for _ in range(count)]
    wake(queue)
    for call in calls:
        if outcome in (Closed, Cancelled):
            with pytest.raises(outcome):
                call.result()
        else:
            assert call.result() == outcome
    if outcome is None:
        assert queue.get() == "second"


def test_a_queue_is_open_until_all_producers_closed_it():
    queue = filled(1, producers=2)
    queue.close()
    queue.put(2)
    queue.close()
    with pytest.raises(Closed):
        queue.put(3)
    assert list(queue) == [1, 2]
    with pytest.raises(Closed):
        queue.get()


def test_a_cancelled_queue_refuses_put_and_get():
    queue = filled(1, 2)
    queue.cancel()
    queue.close()
    for ask in (take, put(3), lambda each: next(iter(each))):
        with pytest.raises(Cancelled):
            ask(queue)


def test_cancel_releases_the_items():
    class Frame:
        pass

    queue = filled()
    frame = Frame()
    queue.put(frame)
    alive = weakref.ref(frame)
    del frame
    assert alive() is not None
    queue.cancel()
    assert alive() is None


def test_numbered_items_are_put_in_order():
    clock = WatchedClock()
    queue = filled(clock=clock)
    early = [
        clock.start_waiting(queue, lambda place=place: queue.put(f"item {place}", position=place))
        for place in (2, 3, 1)
    ]
    queue.put("item 0", position=0)
    for call in early:
        call.result()
    assert [queue.get() for _ in range(4)] == ["item 0", "item 1", "item 2", "item 3"]


@pytest.mark.parametrize(
    ("inside", "waits", "wake", "waited"),
    [([], take, put("late"), (2.0, 0.0)), ([1], put(2), take, (0.0, 2.0))],
)
def test_waits_in_progress_are_counted(inside, waits, wake, waited):
    clock = WatchedClock()
    queue = filled(*inside, capacity=1, clock=clock)
    waiting = clock.start_waiting(queue, lambda: waits(queue))
    clock.advance(2)
    during = queue.statistics()
    wake(queue)
    waiting.result()
    clock.advance(5)
    for statistics in (during, queue.statistics()):
        assert (statistics.starved_seconds, statistics.blocked_seconds) == waited
        if inside:
            assert statistics.mean_occupancy == statistics.max_occupancy == 1.0


def test_waiting_times_of_items_are_measured():
    clock = FakeClock()
    queue = filled(clock=clock)
    queue.put("first")
    clock.advance(1)
    queue.put("second")
    clock.advance(2)
    queue.get(), queue.get()
    wait_ms = queue.statistics().wait_ms
    assert wait_ms is not None
    assert (wait_ms.count, wait_ms.p50, wait_ms.maximum) == (2, 2000.0, 3000.0)


@pytest.mark.parametrize("end", [("get", "close"), ("close", "get"), ("cancel",)], ids=str)
def test_statistics_stop_with_the_queue(end):
    clock = FakeClock()
    queue = filled(1, clock=clock)
    clock.advance(4)
    for step in end:
        getattr(queue, step)()
    clock.advance(100)
    assert queue.statistics().elapsed_seconds == 4.0


@settings(max_examples=60)
@given(
    capacity=st.integers(1, 4),
    producers=st.integers(1, 4),
    consumers=st.integers(1, 4),
    items=st.integers(0, 40),
)
def test_every_item_is_received_once_in_its_producers_order(capacity, producers, consumers, items):
    queue = BoundedQueue(capacity, "numbers", producers=producers)
    together = threading.Barrier(producers + consumers)

    def produce(producer):
        together.wait(TIMEOUT_SECONDS)
        for number in range(items):
            queue.put((producer, number))
        queue.close()

    def consume():
        together.wait(TIMEOUT_SECONDS)
        return list(queue)

    calls = [Call(lambda producer=producer: produce(producer)) for producer in range(producers)]
    taken = [call.result() for call in [Call(consume) for _ in range(consumers)]]
    for call in calls:
        call.result()
    assert Counter(chain(*taken)) == Counter(
        (producer, number) for producer in range(producers) for number in range(items)
    )
    for share in taken:
        for producer in range(producers):
            numbers = [number for source, number in share if source == producer]
            assert numbers == sorted(numbers)
    statistics = queue.statistics()
    assert statistics.puts == statistics.gets == producers * items
    assert statistics.max_occupancy <= 1.0


@settings(max_examples=40)
@given(
    capacity=st.integers(1, 3),
    producers=st.integers(1, 3),
    consumers=st.integers(1, 3),
    before=st.integers(0, 30),
)
def test_cancel_ends_all_threads(capacity, producers, consumers, before):
    queue = BoundedQueue(capacity, "numbers")

    def produce():
        while True:
            queue.put(0)

    def consume():
        while True:
            queue.get()

    calls = [Call(role) for role in [produce] * producers + [consume] * consumers]
    for _ in range(before):
        queue.get()
    queue.cancel()
    for call in calls:
        with pytest.raises(Cancelled):
            call.result()


def queue_of(overflow: Overflow, capacity: int = 2, **options) -> BoundedQueue:
    return BoundedQueue(capacity, "frames", overflow=overflow, clock=FakeClock(), **options)


def drained(queue):
    queue.close()
    return list(queue)


@given(puts=st.lists(st.integers(0, 2), max_size=40), share=st.integers(1, 3))
def test_each_lane_behaves_like_its_own_queue(puts, share):
    queue = queue_of("drop_oldest", capacity=3 * share, lanes=3)
    alone = [queue_of("drop_oldest", capacity=share) for _ in range(3)]
    for number, lane in enumerate(puts):
        assert queue.put((lane, number), lane=lane) == alone[lane].put((lane, number))
    left = drained(queue)
    assert left == sorted(left, key=lambda item: item[1])
    for lane in range(3):
        assert [item for item in left if item[0] == lane] == drained(alone[lane])


@pytest.mark.parametrize("overflow", ["wait", "drop_oldest"])
def test_items_without_room_enter_a_full_queue(overflow):
    queue = queue_of(overflow, capacity=1)
    assert queue.put("item") is None
    assert queue.put("mark", takes_room=False) is None
    assert not queue.has_room()
    assert drained(queue) == ["item", "mark"]


@given(
    steps=st.lists(st.sampled_from(["put", "mark", "get"]), max_size=60),
    capacity=st.integers(1, 3),
    leaves=st.booleans(),
)
def test_every_item_is_received_or_dropped_once_in_order(steps, capacity, leaves):
    queue = queue_of("drop_oldest", capacity)
    out, dropped, inside, number = [], [], 0, 0
    for step in steps:
        if step == "put":
            found = queue.put(number, replacement=-number if leaves else None)
            dropped += [] if found is None else [found]
            inside += 1 if leaves or found is None else 0
            number += 1
        elif step == "mark":
            queue.put(None, takes_room=False)
            inside += 1
        elif inside:
            out.append(queue.get())
            inside -= 1
        statistics = queue.statistics()
        assert statistics.max_occupancy <= 1
        assert 0 <= statistics.mean_occupancy <= 1
    out += drained(queue)
    seen = [abs(item) for item in out if item is not None]
    assert seen == sorted(seen)
    if leaves:
        assert seen == list(range(number))
        assert sorted(-item for item in out if item is not None and item < 0) == sorted(
            item for item in dropped if item
        )
    else:
        assert sorted(seen + dropped) == list(range(number))


def test_occupancy_and_waits_exclude_dropped_items():
    queue = queue_of("drop_oldest", capacity=1)
    for item in range(3):
        queue.put(item, replacement="gone")
    assert drained(queue) == ["gone", "gone", 2]
    statistics = queue.statistics()
    assert (statistics.puts, statistics.gets) == (3, 1)
    assert statistics.max_occupancy == 1.0
    assert statistics.wait_ms.count == 1
