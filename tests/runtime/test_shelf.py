"""Things that wait for their next use."""

import pytest

from headrace.errors import ConfigError
from headrace.runtime.shelf import Shelf


class Thing:
    def __init__(self):
        self.is_closed = False

    def close(self):
        self.is_closed = True


def test_what_was_put_is_taken_once():
    shelf, thing = Shelf(2), Thing()
    shelf.put("a", thing)
    assert shelf.take("b") is None
    assert shelf.take("a") is thing
    assert shelf.take("a") is None
    assert not thing.is_closed


def test_what_has_lain_longest_is_closed_when_there_are_too_many():
    shelf, things = Shelf(2), [Thing() for _ in range(3)]
    shelf.put(0, things[0])
    shelf.put(1, things[1])
    shelf.put(0, shelf.take(0))
    shelf.put(2, things[2])
    assert [thing.is_closed for thing in things] == [False, True, False]
    assert len(shelf) == 2


def test_a_second_thing_under_a_key_closes_the_first():
    shelf, first, second = Shelf(2), Thing(), Thing()
    shelf.put(0, first)
    shelf.put(0, second)
    assert (first.is_closed, second.is_closed) == (True, False)
    assert shelf.take(0) is second


def test_closing_closes_what_lies_there_and_the_shelf_goes_on():
    shelf, thing = Shelf(2), Thing()
    shelf.put(0, thing)
    shelf.close()
    assert thing.is_closed
    assert shelf.take(0) is None


def test_a_shelf_for_nothing_is_refused():
    with pytest.raises(ConfigError, match="capacity >= 1, got 0"):
        Shelf(0)
