"""Every sink gets every result through its own queue, and none delays another."""

import threading

import pytest

from headrace.errors import MediaError, StageError
from headrace.runtime.fan_out import FanOut, SinkSpec
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import Call, fails_on, happens, headrace_threads


class Gate:
    """A sink that blocks in its first result until it is opened."""

    def __init__(self):
        self.got, self.stuck, self.opened = [], threading.Event(), threading.Event()

    def __call__(self, result):
        self.stuck.set()
        happens(self.opened)
        self.got.append(result)


def put_all(fan, results):
    for result in results:
        fan.put(result)


def outlets(**functions):
    return [SinkSpec(name=name, function=function) for name, function in functions.items()]


def test_a_stuck_sink_drops_results_and_blocks_no_other():
    page, file = Gate(), []
    sinks = [
        SinkSpec(name="page", function=page, overflow="drop_oldest"),
        *outlets(file=file.append),
    ]
    with FanOut(sinks) as fan:
        fan.put(0)
        happens(page.stuck)
        put_all(fan, range(1, 10))
        page.opened.set()
    statistics = fan.statistics()
    assert (page.got, file) == ([0, 8, 9], list(range(10)))
    found = [(sink.name, sink.items, sink.dropped) for sink in statistics]
    assert found == [("page", 3, {"overflow": 7}), ("file", 10, {})]
    assert not headrace_threads()


def test_a_waiting_sink_blocks_put_but_no_other_sink():
    """Both are full at the last result; `other` has room first, and gets it first."""
    clock, slow, other, got_last = FakeClock(), Gate(), Gate(), threading.Event()
    sinks = [
        SinkSpec(name="slow", function=slow, capacity=1),
        SinkSpec(
            name="other", function=lambda n: other(n) or (n == 2 and got_last.set()), capacity=1
        ),
    ]
    with FanOut(sinks, clock=clock) as fan:
        fan.put(0)
        happens(slow.stuck)
        happens(other.stuck)
        fan.put(1)
        putting = Call(lambda: fan.put(2))
        other.opened.set()
        happens(got_last)
        assert slow.got == []
        clock.advance(3)
        slow.opened.set()
        putting.result()
    assert slow.got == other.got == [0, 1, 2]
    assert [queue.blocked_seconds for queue in fan.queues()] == [3.0, 0.0]


def test_a_failed_sink_ends_alone_and_raises_at_the_end():
    error, file, events = OSError("disk is full"), [], []
    failed = threading.Event()

    def fail(result):
        if result == 2:
            failed.set()
            raise error

    fan = FanOut(outlets(video=fail, file=file.append))

    def run_it():
        with fan:
            put_all(fan, range(3))
            happens(failed)
            put_all(fan, range(3, 10))
            events.append("all were taken")

    with pytest.raises(StageError) as caught:
        run_it()
    assert str(caught.value) == "stage 'video' failed on item 2: OSError: disk is full"
    assert caught.value.__cause__ is error
    assert (file, events) == (list(range(10)), ["all were taken"])
    video = fan.statistics()[0]
    assert (video.items, video.dropped) == (2, {"sink failed": 8})
    assert fan.failures() == {"video": caught.value}
    assert not headrace_threads()


def test_further_errors_of_sinks_are_notes():
    first = MediaError("cannot be encoded", source="out.mp4")
    sinks = outlets(video=fails_on(0, first), page=fails_on(0, OSError("gone")))

    with pytest.raises(MediaError) as caught, FanOut(sinks) as fan:
        fan.put(0)
    assert caught.value is first
    gone = "and another sink failed: stage 'page' failed on item 0: OSError: gone"
    assert first.__notes__ == ["in stage 'video', item 0", gone]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_put_results_are_finished_after_an_error_of_the_block(error):
    file = Gate()

    def run_it():
        with FanOut(outlets(file=file, page=fails_on(0, OSError("gone")))) as fan:
            put_all(fan, range(2))
            file.opened.set()
            raise error

    with pytest.raises(error) as caught:
        run_it()
    assert file.got == [0, 1]
    assert "OSError: gone" in caught.value.__notes__[0]
    assert not headrace_threads()


def test_a_hanging_sink_is_abandoned_and_its_drops_counted():
    release, stuck = threading.Event(), threading.Event()

    def hang(result):
        stuck.set()
        release.wait(30)

    fan = FanOut([SinkSpec(name="page", function=hang)], drain_seconds=0.01)
    fan.__enter__()
    put_all(fan, range(1))
    happens(stuck)
    put_all(fan, range(1, 3))
    with pytest.warns(RuntimeWarning, match="headrace-sink-page hangs and is abandoned"):
        fan.__exit__(None, None, None)
    assert fan.statistics()[0].dropped == {"unfinished": 3}
    release.set()


def test_busy_and_starved_are_separate():
    clock = FakeClock()

    def function(result):
        clock.advance(2)

    with FanOut([SinkSpec(name="page", function=function)], clock=clock) as fan:
        put_all(fan, range(3))
    assert fan.statistics()[0].busy_seconds == 6.0


def test_a_fan_out_without_sinks_works():
    with FanOut([]) as fan:
        fan.put(0)
    assert fan.statistics() == fan.queues() == ()
