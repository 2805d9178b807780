"""Traces, NVTX ranges and TensorBoard logs, as other tools read them."""

import gzip
import json
import os
import threading
from collections import Counter, defaultdict

import nvtx
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.profiler import record_function
from torch.utils.tensorboard import SummaryWriter

from headrace.errors import StageError
from headrace.profiling.tensorboard_log import TensorBoardLog
from headrace.profiling.torch_trace import StepTrace, TorchEvents
from headrace.profiling.trace import ItemTrace, NvtxMarks, trace_events, write_trace
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Stage
from headrace.runtime.tracing import TimedRange
from report.recorded import step_of
from runtime.in_time import in_time


def ranged(stage, number, start, end, *, process=7, thread=None):
    thread = thread or f"{stage}-0"
    return TimedRange(
        process_id=process,
        thread_id=len(thread),
        thread=thread,
        stage=stage,
        number=number,
        start_ns=start * 1000,
        end_ns=end * 1000,
    )


def arrows(events):
    """Return id of an arrow → names of the ranges on its path, by row and time."""
    ranges = {(e["tid"], e["ts"]): e["name"] for e in events if e["ph"] == "X"}
    paths: dict[int, list[str]] = {}
    for event in events:
        if event["ph"] in "stf":
            paths.setdefault(event["id"], []).append(ranges[event["tid"], event["ts"]])
    return paths


def test_each_thread_has_a_row_in_the_order_in_which_stages_started():
    ranges = [
        *(ranged("model", 0, 30, 40), ranged("decode", 0, 10, 20, thread="decode-1")),
        *(ranged("decode", 1, 12, 20, thread="decode-0"), ranged("decode", 0, 5, 9, process=9)),
    ]
    events = trace_events(ranges, origin_ns=5000)
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    order = {
        (e["pid"], e["tid"]): e["args"]["sort_index"]
        for e in events
        if e["name"] == "thread_sort_index"
    }
    assert [(row[0], rows[row]) for row in sorted(order, key=lambda row: (row[0], order[row]))] == [
        *((7, "decode-0"), (7, "decode-1"), (7, "model-0"), (9, "decode-0"))
    ]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert processes == {7: "headrace 7", 9: "headrace 9"}


def test_a_range_is_an_event_in_microseconds_since_the_origin():
    (event,) = [e for e in trace_events([ranged("model", 3, 30, 42)], origin_ns=5000) if "dur" in e]
    assert (event["name"], event["ts"], event["dur"]) == ("model 3", 25, 12)
    assert event["args"] == {"stage": "model", "item": 3}


def test_an_arrow_follows_an_item_from_the_source_to_the_last_stage():
    ranges = [ranged(s, n, 10 * k + n, 10 * k + n + 1) for k, s in enumerate("abc") for n in (0, 1)]
    items = [ItemTrace(number=1, stages=("a", "b", "c"))]
    events = trace_events(ranges, items, origin_ns=0)
    assert arrows(events) == {1: ["a 1", "b 1", "c 1"]}
    assert Counter(e["ph"] for e in events if e["ph"] in "stf") == {"s": 1, "t": 1, "f": 1}


def test_an_arrow_follows_batches_and_renumbered_items():
    def path(ranges, parts=None, **item):
        return arrows(trace_events(ranges, [ItemTrace(**item)], parts or {}, origin_ns=0))

    decoded = [ranged("decode", n, n, n + 1) for n in range(4)]
    batched = [*decoded, ranged("batch", 0, 5, 6), ranged("model", 0, 8, 9)]
    parts, stages = {("batch", 0): (2, 3)}, ("decode", "batch", "model")
    paths = path(batched, parts, number=0, stages=stages)
    assert paths == {k: [f"decode {k}", "batch 0", "model 0"] for k in (2, 3)}
    renumbered = [ranged("decode", 5, 1, 2), ranged("model", 4, 3, 4)]
    paths = path(renumbered, number=4, stages=("decode", "model"), source_number=5)
    assert paths == {4: ["decode 5", "model 4"]}
    assert path([ranged("b", 0, 2, 3)], number=0, stages=("a", "b")) == {}, "only one range"


def test_an_arrow_uses_the_last_range_of_an_item_in_a_stage():
    ranges = [ranged("a", 0, 1, 9), ranged("b", 0, 2, 3), ranged("b", 0, 10, 12)]
    events = trace_events(ranges, [ItemTrace(number=0, stages=("a", "b"))], origin_ns=0)
    assert [e["ts"] for e in events if e["ph"] in "sf"] == [1, 10]


def test_a_trace_is_gzipped_json(tmp_path):
    write_trace(tmp_path / "trace.json.gz", trace_events([ranged("a", 0, 1, 2)], origin_ns=0))
    document = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    assert [e["name"] for e in document["traceEvents"] if e["ph"] == "X"] == ["a 0"]
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json.gz"]


def test_an_interrupted_trace_leaves_no_file(tmp_path):
    class Interrupting(dict):
        def __iter__(self):
            raise KeyboardInterrupt

        def items(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_trace(tmp_path / "trace.json.gz", [{"name": "a"}, Interrupting(name="b")])
    assert list(tmp_path.iterdir()) == []


def names(events):
    return [event["name"] for event in events]


def test_operations_of_pytorch_have_times_on_our_clock():
    """The trace has no internal events of the profiler."""
    events = TorchEvents(SYSTEM_CLOCK)
    events.start()
    began_ns = SYSTEM_CLOCK.now_ns()
    torch.zeros(3).cos()
    ended_ns = SYSTEM_CLOCK.now_ns()
    events.stop()
    torch.zeros(3).sin()
    recorded = events.events({}, origin_ns=began_ns)
    assert "aten::sin" not in names(recorded)
    (cosine,) = [event for event in recorded if event["name"] == "aten::cos"]
    tolerance_us = 1000  # for a busy machine
    assert -tolerance_us <= cosine["ts"] <= (ended_ns - began_ns) / 1e3 + tolerance_us
    assert all(isinstance(event["pid"], int) for event in recorded)
    assert not [name for name in names(recorded) if "headrace" in name or "Profiler" in name]


def test_a_trace_that_ends_before_its_first_step_has_only_ranges():
    trace = StepTrace(5, SYSTEM_CLOCK)
    with trace.marks.range("decode", 0):
        torch.zeros(3)
    trace.close()
    recorded = trace.events(origin_ns=0)
    assert [event["name"] for event in recorded if event["ph"] != "M"] == ["decode 0"]
    assert trace.steps == 0


def test_steps_after_the_end_of_a_trace_are_not_in_it():
    trace = StepTrace(1, SYSTEM_CLOCK)
    for number in range(4):
        with trace.marks.range("model", number):
            torch.zeros(3)
        trace.add(ItemTrace(number=number, stages=("model",)))
    recorded = trace.events(origin_ns=0)
    assert [e["name"] for e in recorded if e.get("cat") == "stage"] == ["model 0", "model 1"]
    assert trace.steps == 1


def test_operations_that_run_when_the_trace_ends_are_left_out():
    """PyTorch does not record their end, and reports a duration up to the end of the trace."""
    events = TorchEvents(SYSTEM_CLOCK)
    events.start()
    with record_function("whole"):
        torch.zeros(3).cos()
    with record_function("cut"):
        torch.zeros(3).sin()
        events.stop()
    recorded = names(events.events({(os.getpid(), 0): "decode-0"}, origin_ns=0))
    assert {"whole", "aten::cos", "aten::sin"} <= set(recorded)
    assert "cut" not in recorded


def test_a_step_that_starts_while_the_trace_ends_has_a_range(monkeypatch):
    trace = StepTrace(1, SYSTEM_CLOCK)
    trace.add(ItemTrace(number=0, stages=("model",)))
    stop = TorchEvents.stop

    def stop_late(recorder):
        with trace.marks.range("model", 7):
            torch.zeros(3).cos()
        stop(recorder)

    monkeypatch.setattr(TorchEvents, "stop", stop_late)
    trace.close()
    recorded = names(trace.events(origin_ns=0))
    assert "aten::cos" in recorded
    assert "model 7" in recorded


class Domain:
    """Records the ranges of each thread, on one stack per thread as in NVTX."""

    def __init__(self):
        self.ended = []
        self.open = defaultdict(list)

    def push_range(self, *, message, category):
        self.open[threading.get_ident()].append((message, category))

    def pop_range(self):
        self.ended.append(self.open[threading.get_ident()].pop())


def run(domain, function):
    pipeline = Pipeline(source=range(2), stages=[Stage(name="model", function=function)])

    def values():
        with pipeline.run(tracer=NvtxMarks(domain)) as items:
            return [item.value for item in items]

    return in_time(values)


def test_ranges_are_named_by_stage_and_number_and_end_in_their_thread():
    domain = Domain()
    run(domain, lambda value: value)
    named = {("model 0", "model"), ("model 1", "model"), ("source 0", "source")}
    assert named <= set(domain.ended)
    assert not any(domain.open.values())


def test_a_range_ends_when_the_work_fails():
    domain = Domain()
    with pytest.raises(StageError):
        run(domain, lambda value: 1 // value)
    assert ("model 0", "model") in domain.ended
    assert not any(domain.open.values())


def test_ranges_inside_a_range_end_before_it():
    domain = Domain()
    marks = NvtxMarks(domain)
    with marks.range("decode", 3), marks.range("model", 4):
        pass
    assert [message for message, _ in domain.ended] == ["model 4", "decode 3"]


@pytest.mark.parametrize("make", [nvtx.get_domain, nvtx._lib.Domain])
def test_the_nvtx_package_accepts_the_ranges(make):
    """`get_domain` returns a dummy without an attached tool, and a `Domain` with one."""
    with NvtxMarks(make("headrace")).range("model", 17):
        pass


def step(number, **fields):
    return step_of(
        **{"number": number, "frames": 4, "started_ms": 100.0 * number, "total_ms": 60.0},
        work_ms={"decode": 10.0, "model": 40.0},
        **fields,
    )


def scalars(folder):
    """Return tag → [(step, value)]."""
    events = EventAccumulator(str(folder)).Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}


def test_the_log_has_the_figures_of_each_step(tmp_path):
    log = TensorBoardLog(SummaryWriter(str(tmp_path)))
    log.add(step(0, arrived_ms=20.0), {"decode": 2})
    log.add(step(1, loss=0.5), {"decode": 1})
    log.close()
    logged = scalars(tmp_path)
    assert all(value > 0 for _, value in logged.pop("memory_mib/process"))
    assert logged == {
        "throughput/frames_per_second": [(1, 40)],
        "stage_ms/decode": [(0, 10), (1, 10)],
        "stage_ms/model": [(0, 40), (1, 40)],
        "step_ms/total": [(0, 60), (1, 60)],
        "latency_ms/newest_frame": [(0, 40)],
        "loss": [(1, 0.5)],
        "queue_depth/decode": [(0, 2), (1, 1)],
    }
