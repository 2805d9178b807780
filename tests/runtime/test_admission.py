"""A gather takes no more than there is room for, and drops without a wait."""

import threading

from headrace.runtime.grouping import Windows
from headrace.runtime.item import Dropped
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.room import Room
from headrace.runtime.stage import Gather, Stage
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import happens, in_time


def test_items_stay_in_the_queue_before_until_there_is_room_for_their_group():
    """So that what comes meanwhile may be dropped there, and what is taken is fresh."""
    room, overflowed = Room(1, clock=FakeClock()), threading.Event()

    def source():
        yield 0
        happens(taken)
        yield from range(1, 30)
        overflowed.set()

    taken = threading.Event()

    def function(values):
        taken.set()
        return values

    batch = Gather(name="batch", grouping=lambda: Windows(length=1), function=function, room=room)
    line = Pipeline(source=source(), stages=[batch], overflow="drop_oldest", capacity=1)

    def run_it():
        found = []
        with line.run(clock=FakeClock()) as run:
            for item in run:
                if item.is_dropped:
                    continue
                found += item.value
                happens(overflowed)
                room.give(1)
            return found, run.flow()

    found, flow = in_time(run_it)
    assert found == [0, 29]
    assert flow.dropped == {("source", "overflow"): 28}
    assert (flow.arrived, flow.delivered, flow.in_flight) == (30, 2, 0)


def test_a_group_that_is_dropped_leaves_its_place_to_the_next():
    room = Room(1, clock=FakeClock())
    batch = Gather(
        name="batch",
        grouping=lambda: Windows(length=2),
        function=lambda values: Dropped("odd") if values[0] % 4 else values,
        room=room,
    )

    def run_it():
        found = []
        with Pipeline(source=range(12), stages=[batch]).run() as run:
            for item in run:
                if not item.is_dropped:
                    found.append(item.value)
                    room.give(1)
        return found

    assert in_time(run_it) == [[0, 1], [4, 5], [8, 9]]
    assert room.most_taken == 1


def test_a_gather_that_waits_for_room_ends_with_the_run():
    batch = Gather(
        name="batch",
        grouping=lambda: Windows(length=1),
        function=lambda values: values,
        room=Room(1, clock=FakeClock()),
    )

    def leave():
        with Pipeline(source=range(10), stages=[batch]).run() as run:
            next(run)
        return [t.name for t in threading.enumerate() if t.name.startswith("headrace-")]

    assert in_time(leave) == []


def test_what_sheds_goes_on_dropping_while_what_comes_after_it_is_stuck():
    opened, ended = threading.Event(), threading.Event()

    def source():
        yield from range(100)
        ended.set()

    def stuck(values):
        happens(opened)
        return values

    first = Gather(
        name="first",
        grouping=lambda: Windows(length=1),
        function=lambda values: values if values[0] < 2 else Dropped("late"),
        sheds=True,
    )
    line = Pipeline(
        source=source(), stages=[first, Stage(name="stuck", function=stuck)], capacity=1
    )

    def run_it():
        with line.run() as run:
            threading.Thread(target=lambda: (happens(ended), opened.set())).start()
            return [item.value for item in run if not item.is_dropped]

    assert in_time(run_it) == [[0], [1]]


def test_places_are_taken_at_once_or_not_at_all():
    room = Room(2)
    assert room.take_at_once(2)
    assert not room.take_at_once(1)
    room.give(1)
    assert room.take_at_once(1)
    assert (room.taken, room.most_taken) == (2, 2)
    room.cancel()
    room.give(2)
    assert not room.take_at_once(1)
