import pytest

from headrace.errors import StageError
from headrace.runtime.queue import BoundedQueue
from headrace.runtime.watch import Watch
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import in_time


def test_who_hangs_is_told_by_the_clock_it_was_given():
    clock = FakeClock()
    watch = Watch(0.001, str, clock)
    abandoned = []
    watch.abandon = abandoned.append
    watch.works("worker-1", "late.mp4")
    clock.advance(50)
    watch.works("worker-2", "new.mp4")
    clock.advance(0.0004)
    empty = BoundedQueue(1, "outputs")
    with pytest.raises(StageError, match=r"worker worker-1 has been at late\.mp4 for 50 s"):
        in_time(lambda: next(watch.taken_from(empty)))
    assert abandoned == ["worker-1"]
