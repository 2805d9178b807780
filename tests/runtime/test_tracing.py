"""Ranges around the work of pipeline threads."""

import threading

import pytest

from headrace.errors import StageError
from headrace.runtime.fan_out import FanOut, SinkSpec
from headrace.runtime.stage import Aggregate, SlidingWindows, Stage
from headrace.runtime.tracing import NO_OP_TRACER, MultiTracer, RangeRecorder
from headrace.runtime.waitable_source import MergedSource, WaitableSource
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import ran, values


def run(source, *stages, tracer, clock=None, **options):
    how = {"tracer": tracer, "clock": clock or FakeClock()}
    return values(ran(source, *stages, how=how, **options)[0])


@pytest.fixture
def recorder():
    return RangeRecorder(FakeClock())


def names(recorder):
    return sorted((each.stage, each.number) for each in recorder.ranges)


def test_each_item_has_a_range_per_stage_on_the_working_thread(recorder):
    double = Stage(name="double", function=lambda value: 2 * value)
    assert run(range(2), double, tracer=recorder) == [0, 2]
    assert names(recorder) == [("double", 0), ("double", 1), ("source", 0), ("source", 1)]
    threads = {(each.stage, each.thread) for each in recorder.ranges}
    assert threads == {("source", "source"), ("double", "double-0")}


def test_a_range_excludes_the_wait_for_its_item():
    clock = FakeClock()
    recorder = RangeRecorder(clock)

    def source(waiter):
        waiter.pause(3)
        yield 1

    def slow(value):
        clock.advance(2)
        return value

    run(
        WaitableSource(read=source), Stage(name="slow", function=slow), tracer=recorder, clock=clock
    )
    spent = {each.stage: (each.start_ns / 1e9, each.end_ns / 1e9) for each in recorder.ranges}
    assert spent == {"source": (3, 3), "slow": (3, 5)}


def test_a_range_ends_at_a_failure(recorder):
    with pytest.raises(StageError, match="item 1"):
        run([1, 0], Stage(name="share", function=lambda value: 1 // value), tracer=recorder)
    assert ("share", 1) in names(recorder)


def test_a_source_may_be_untraced(recorder):
    run([1], Stage(name="same", function=abs), tracer=recorder, traces_source=False)
    assert names(recorder) == [("same", 0)]


def test_items_of_merged_sources_keep_their_numbers(recorder):
    run(MergedSource(feeds=[range(3), range(4)]), tracer=recorder)
    assert names(recorder) == [("source", number) for number in range(7)]


def test_parts_of_a_group_are_recorded(recorder):
    gather = Aggregate(name="pairs", grouping=lambda: SlidingWindows(length=2), function=sum)
    assert run(range(5), gather, tracer=recorder) == [1, 5, 4]
    assert recorder.parts == {("pairs", 0): (0, 1), ("pairs", 1): (2, 3), ("pairs", 2): (4,)}


def test_sinks_are_traced(recorder):
    taken = []
    with FanOut([SinkSpec(name="file", function=taken.append)], tracer=recorder) as fan:
        fan.put("a")
        fan.put("b")
    assert (taken, names(recorder)) == (["a", "b"], [("file", 0), ("file", 1)])


def test_a_stopped_recorder_keeps_only_started_ranges(recorder):
    with recorder.range("model", 1):
        recorder.stop()
    with recorder.range("model", 2):
        recorder.record_parts("batch", 2, [3])
    assert names(recorder) == [("model", 1)]
    assert recorder.parts == {}


def test_several_tracers_get_the_same_ranges():
    first, second = RangeRecorder(FakeClock()), RangeRecorder(FakeClock())
    both = MultiTracer([first, second])
    with both.range("decode", 0) as _:
        both.record_parts("batch", 0, [0])
    traced = both.range("decode", 0)
    with traced:
        traced.set_item(7, 0)
    assert names(first) == names(second) == [("decode", 0), ("decode", 7)]
    assert first.parts == second.parts == {("batch", 0): (0,)}


def test_a_range_has_the_systems_thread_id(recorder):
    with recorder.range("model", 0):
        pass
    assert recorder.ranges[0].thread_id == threading.get_native_id()


def test_the_no_op_tracer_creates_no_range():
    assert NO_OP_TRACER.range("model", 0) is NO_OP_TRACER.range("sink", 1)
