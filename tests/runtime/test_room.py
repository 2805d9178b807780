"""Room that is taken and given back."""

import pytest

from headrace.errors import ConfigError
from headrace.runtime.queue import Cancelled
from headrace.runtime.room import Room
from runtime.in_time import Call, WatchedClock, in_time


def test_a_taker_waits_until_there_is_room_for_all_it_asks_for():
    room = Room(10)
    room.take(6)
    waiting = Call(lambda: room.take(7))
    room.give(2)
    assert room.taken == 4
    room.give(1)
    waiting.result()
    assert (room.taken, room.most_taken) == (10, 10)


def test_no_places_are_always_there():
    room = Room(1)
    room.take(1)
    in_time(lambda: room.take(0))
    assert room.taken == 1


def test_cancelling_wakes_who_waits_and_refuses_who_comes_later():
    room = Room(1)
    with room:
        room.take(1)
        waiting = Call(lambda: room.take(1))
    with pytest.raises(Cancelled):
        waiting.result()
    with pytest.raises(Cancelled):
        room.take(0)


def test_waiting_is_counted():
    clock = WatchedClock()
    room = Room(1, clock=clock)
    room.take(1)
    waiting = clock.start_waiting(room, lambda: room.take(1))
    clock.advance(3)
    room.give(1)
    waiting.result()
    assert room.blocked_seconds == 3


@pytest.mark.parametrize("places", [-1, 11])
def test_more_than_there_is_at_all_is_refused(places):
    with pytest.raises(ConfigError, match="were asked of a room of 10"):
        Room(10).take(places)
    with pytest.raises(ConfigError, match="capacity >= 1"):
        Room(0)
