"""The trace of a run's first steps, and PyTorch's work in it."""

import os

import torch
from torch.profiler import record_function

from headrace.profiling.step_trace import StepTrace
from headrace.profiling.torch_events import TorchEvents
from headrace.profiling.trace import Journey
from headrace.runtime.clock import SYSTEM_CLOCK


def names(events):
    return [each["name"] for each in events]


def test_what_pytorch_does_between_start_and_stop_has_the_times_of_our_clock():
    events = TorchEvents(SYSTEM_CLOCK)
    events.start()
    began_ns = SYSTEM_CLOCK.now_ns()
    torch.zeros(3).cos()
    ended_ns = SYSTEM_CLOCK.now_ns()
    events.stop()
    torch.zeros(3).sin()
    found = events.events({}, origin_ns=began_ns)
    assert "aten::sin" not in names(found)
    (cosine,) = [each for each in found if each["name"] == "aten::cos"]
    apart_us = 1000  # what two readings of a busy machine may differ by
    assert -apart_us <= cosine["ts"] <= (ended_ns - began_ns) / 1e3 + apart_us


def test_the_profiler_leaves_nothing_of_its_own_in_the_trace():
    events = TorchEvents(SYSTEM_CLOCK)
    events.start()
    torch.zeros(3).cos()
    events.stop()
    found = events.events({}, origin_ns=0)
    assert all(isinstance(each["pid"], int) for each in found)
    assert not [name for name in names(found) if "headrace" in name or "Profiler" in name]


def test_a_trace_that_ends_before_its_first_step_holds_the_marks_alone():
    trace = StepTrace(5, SYSTEM_CLOCK)
    with trace.marks.range("decode", 0):
        torch.zeros(3)
    trace.close()
    found = trace.events(origin_ns=0)
    assert [each["name"] for each in found if each["ph"] != "M"] == ["decode 0"]
    assert trace.steps == 0


def test_steps_behind_the_end_of_a_trace_are_not_in_it():
    trace = StepTrace(1, SYSTEM_CLOCK)
    for number in range(4):
        with trace.marks.range("model", number):
            torch.zeros(3)
        trace.add(Journey(number=number, stages=("model",)))
    found = trace.events(origin_ns=0)
    assert [e["name"] for e in found if e.get("cat") == "stage"] == ["model 0", "model 1"]
    assert trace.steps == 1


def test_what_is_under_way_when_the_trace_ends_is_left_out():
    """PyTorch never hears of its end, and says that it lasted until then."""
    events = TorchEvents(SYSTEM_CLOCK)
    events.start()
    with record_function("whole"):
        torch.zeros(3).cos()
    with record_function("cut"):
        torch.zeros(3).sin()
        events.stop()
    found = names(events.events({(os.getpid(), 0): "decode-0"}, origin_ns=0))
    assert {"whole", "aten::cos", "aten::sin"} <= set(found)
    assert "cut" not in found


def test_a_step_that_begins_while_the_trace_ends_has_a_range(monkeypatch):
    trace = StepTrace(1, SYSTEM_CLOCK)
    trace.add(Journey(number=0, stages=("model",)))
    stop = TorchEvents.stop

    def stop_late(recorder):
        with trace.marks.range("model", 7):
            torch.zeros(3).cos()
        stop(recorder)

    monkeypatch.setattr(TorchEvents, "stop", stop_late)
    trace.close()
    found = names(trace.events(origin_ns=0))
    assert "aten::cos" in found
    assert "model 7" in found
