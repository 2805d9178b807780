"""The test pattern: each frame at its moment, and its number in its pixels."""

from fractions import Fraction

import numpy as np
import pytest

from headrace.live.address import PatternAddress
from headrace.live.pattern import PatternSource
from headrace.runtime.queue import Cancelled
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import read_number
from live.reading import Read


def test_frames_carry_their_numbers_and_are_due_at_their_moments():
    clock = FakeClock(now_ns=5_000)
    read = Read("test://?size=96x128&rate=30&seconds=0.5", clock=clock)
    assert len(list(read)) == 15
    frames = read.frames
    assert [read_number(frame.pixels) for frame in frames] == list(range(15))
    assert [frame.arrived_ns for frame in frames] == [
        5_000 + round(k * 1e9 / 30) for k in range(15)
    ]
    assert {frame.time_base for frame in frames} == {Fraction(1, 30)}
    assert read.kinds == ["joined", "ended"]
    assert read.source.base == "schedule"
    read.check_conserved()


def test_a_slow_consumer_changes_no_moment():
    clock = FakeClock()
    read = Read("test://?size=96x128&rate=10&seconds=1", clock=clock)
    for _ in read:
        clock.advance(0.25)
    assert [frame.arrived_ns for frame in read.frames] == [k * 100_000_000 for k in range(10)]
    assert read.waiter.waited_ns == 0


def test_without_an_end_it_goes_on_until_it_is_woken():
    read = Read("test://?size=32x32&rate=1000", clock=FakeClock())
    frames = iter(read)
    for _ in range(2000):
        next(frames)
    read.waiter.wake()
    with pytest.raises(Cancelled):
        next(frames)


@pytest.mark.parametrize("size", [(32, 32), (97, 131), (720, 1280)])
def test_numbers_can_be_read_at_any_size(size):
    source = PatternSource(PatternAddress(size=size))
    for number in (0, 1, 63, 64, 65_535):
        assert read_number(source.picture(number)) == number


def test_the_picture_moves_and_another_seed_is_another_picture():
    one, other = (PatternSource(PatternAddress(size=(96, 128), seed=seed)) for seed in (0, 1))
    assert not np.array_equal(one.picture(0)[80:], one.picture(1)[80:])
    assert not np.array_equal(one.picture(0)[80:], other.picture(0)[80:])
    assert np.array_equal(one.picture(7), one.picture(7))
