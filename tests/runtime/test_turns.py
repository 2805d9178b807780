"""Work on one thing is done in the order it was numbered in, whoever does it."""

import threading

import pytest

from headrace.runtime.queue import Cancelled
from headrace.runtime.turns import Turns
from runtime.in_time import Call


def test_a_turn_waits_for_those_before_it_and_not_for_other_keys():
    turns, done = Turns(), []
    second_waits = threading.Event()

    def second():
        second_waits.set()
        with turns.turn("a", 1):
            done.append("a1")

    thread = threading.Thread(target=second)
    thread.start()
    assert second_waits.wait(10)
    with turns.turn("b", 0):
        done.append("b0")
    with turns.turn("a", 0):
        done.append("a0")
    thread.join(10)
    assert done == ["b0", "a0", "a1"]


def test_who_waits_for_a_turn_can_be_woken():
    turns = Turns()
    call = Call(lambda: turns.turn("a", 1).__enter__())
    turns.cancel()
    with pytest.raises(Cancelled):
        call.result()


def test_a_turn_that_failed_is_over():
    turns = Turns()
    with pytest.raises(KeyError), turns.turn("a", 0):
        raise KeyError
    with turns.turn("a", 1):
        pass
