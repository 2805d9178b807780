"""A full queue waits or drops; sinks behind queues of their own hold nobody back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.queue import BoundedQueue, Overflow
from headrace.testing.fake_clock import FakeClock


def queue_of(overflow: Overflow, capacity: int = 2, **options) -> BoundedQueue:
    return BoundedQueue(capacity, "frames", overflow=overflow, clock=FakeClock(), **options)


def drained(queue):
    queue.close()
    return list(queue)


@given(
    puts=st.lists(st.integers(0, 2), max_size=40),
    share=st.integers(1, 3),
)
def test_each_lane_keeps_what_a_queue_of_its_own_would(puts, share):
    queue = queue_of("drop_oldest", capacity=3 * share, lanes=3)
    alone = [queue_of("drop_oldest", capacity=share) for _ in range(3)]
    for number, lane in enumerate(puts):
        assert queue.put((lane, number), lane=lane) == alone[lane].put((lane, number))
    left = drained(queue)
    assert left == sorted(left, key=lambda item: item[1])
    for lane in range(3):
        assert [item for item in left if item[0] == lane] == drained(alone[lane])


@pytest.mark.parametrize("overflow", ["wait", "drop_oldest"])
def test_what_takes_no_room_enters_a_full_queue_and_drops_nothing(overflow):
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
def test_every_item_comes_out_or_is_dropped_once_and_in_order(steps, capacity, leaves):
    queue = queue_of("drop_oldest", capacity)
    out, dropped, inside, number = [], [], 0, 0
    for step in steps:
        if step == "put":
            found = queue.put(number, instead=-number if leaves else None)
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


def test_occupancy_and_waits_are_those_of_the_items_that_stay():
    queue = queue_of("drop_oldest", capacity=1)
    for item in range(3):
        queue.put(item, instead="gone")
    assert drained(queue) == ["gone", "gone", 2]
    statistics = queue.statistics()
    assert (statistics.puts, statistics.gets) == (3, 1)
    assert statistics.max_occupancy == 1.0
    assert statistics.wait_ms.count == 1
