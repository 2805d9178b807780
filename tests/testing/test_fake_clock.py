import threading

import pytest

from headrace.testing.fake_clock import FakeClock


def test_stands_still_until_it_is_moved():
    clock = FakeClock(now_ns=5, wall_seconds=100.0)
    assert (clock.now_ns(), clock.now_ns(), clock.wall_seconds()) == (5, 5, 100.0)
    clock.advance(1.5)
    assert (clock.now_ns(), clock.wall_seconds()) == (1_500_000_005, 101.5)


def test_never_goes_back():
    with pytest.raises(ValueError, match=r"must be >= 0, got -0\.1"):
        FakeClock().advance(-0.1)


def test_who_waits_by_it_moves_it_there():
    clock, condition = FakeClock(now_ns=5), threading.Condition()
    with condition:
        clock.wait_until(condition, 9)
        clock.wait_until(condition, 7)
    assert clock.now_ns() == 9
