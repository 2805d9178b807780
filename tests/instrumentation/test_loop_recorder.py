"""The recorder of a loop: waits of a GPU, and the trace of loop and workers."""

import os
import sys
from dataclasses import dataclass

import pytest
from torch.utils.data import DataLoader

import headrace
from headrace.instrumentation.dataloader_hook import LoaderInfo
from headrace.instrumentation.loop_recorder import (
    MAX_TRACE_STEPS,
    CudaGaps,
    LoopRecorder,
    LoopStep,
    trace_loop,
)
from headrace.instrumentation.loop_session import build_session
from headrace.profiling.findings.verdict import find
from headrace.profiling.recorder import Recorder
from headrace.testing.fake_clock import FakeClock
from instrumentation.loaders import Numbers
from profiling.perfetto_engine import opened
from report.recorded import record


@dataclass
class Stream:
    """A CUDA stream that reaches an event when all work before the event is done."""

    clock: FakeClock
    done_ms: float = 0.0
    """Time at which all queued work is done."""

    def work(self, ms: float) -> None:
        self.done_ms = max(self.done_ms, self.clock.now_ns() / 1e6) + ms

    def event(self) -> "Event":
        return Event(self, max(self.done_ms, self.clock.now_ns() / 1e6))


@dataclass
class Event:
    stream: Stream
    at_ms: float

    def query(self) -> bool:
        return self.stream.clock.now_ns() / 1e6 >= self.at_ms

    def synchronize(self) -> None:
        self.stream.clock.advance(max(0.0, self.at_ms / 1e3 - self.stream.clock.now_ns() / 1e9))

    def elapsed_time(self, other: "Event") -> float:
        return other.at_ms - self.at_ms


def simulate(gpu_ms: float):
    """Return the session of 100 steps: a wait of 10 ms for a batch, then `gpu_ms` of GPU work."""
    clock = FakeClock()
    stream = Stream(clock)
    loop = LoopRecorder(clock=clock, gaps=CudaGaps(stream.event))
    loop.start_epoch()
    for _ in range(100):
        loop.request()
        clock.advance(0.010)
        loop.receive([0])
        stream.work(gpu_ms)
        clock.advance(0.001)
    loop.request()
    loop.end_epoch()
    recorder = Recorder("loader", record(steps=1).provenance, clock=FakeClock())
    timed = {"wall_seconds": 1.0, "others_cpu_share": None}
    return build_session(recorder, loop, LoaderInfo(name="list"), **timed)


def test_a_gpu_with_work_for_the_whole_wait_is_never_idle() -> None:
    session = simulate(gpu_ms=30.0)
    assert session.loader.waits_of == "device"
    (finding,) = find(session)
    assert finding.bound_by == ("step",)
    assert finding.headline.startswith("The step itself takes 100 % of the time: ")
    assert "The GPU waits for data 0 % of the time." in finding.evidence


def test_a_step_that_starts_without_a_cuda_event_has_no_idle_time() -> None:
    """The stream captures a graph at that time."""
    stream = Stream(FakeClock())
    events = iter([stream.event(), None])
    gaps, step = CudaGaps(lambda: next(events)), plain_steps(1)[0]
    gaps.end_step()
    gaps.start_step(step)
    gaps.finish()
    assert step.gpu_idle_ms is None


def test_a_gpu_without_work_is_idle_for_the_rest_of_the_wait() -> None:
    """The GPU works 4 of 11 ms, 1 ms of them before the loop waits."""
    session = simulate(gpu_ms=4.0)
    (finding,) = find(session)
    assert finding.headline == "The GPU waits for data 64 % of the time: 7 of the 11 ms of a step."
    assert session.loader.thread_cpu_ms >= 0.0
    if sys.platform == "linux":
        assert {*session.steps.core_wait_ms} == {"wait", "step"}


ROWS = (
    "select process.name as process, thread.name as row, slice.name as name from slice"
    " join thread_track on slice.track_id = thread_track.id"
    " join thread using (utid) join process using (upid)"
)
ARROWS = (
    "select a.name as a, b.name as b from flow"
    " join slice a on flow.slice_out = a.id join slice b on flow.slice_in = b.id"
)


def run_profiled(folder, *, workers: int):
    loader = DataLoader(Numbers(), batch_size=4, num_workers=workers)
    with headrace.profile_loader(loader, out=folder, on_verdict=None) as profile:
        list(profile)
    return profile.session


def test_perfetto_reads_a_row_per_worker_and_the_path_of_each_batch(tmp_path, page) -> None:
    session = run_profiled(tmp_path, workers=2)
    assert "trace.json.gz" in session.outputs
    with opened(page, tmp_path / "trace.json.gz") as trace:
        rows: dict[tuple[str, str], set[str]] = {}
        processes = {}
        for event in trace.query(ROWS):
            name, _, number = event["process"].rpartition(" ")
            rows.setdefault((name, event["row"]), set()).add(event["name"])
            processes[name] = int(number)
        assert processes["training loop"] == os.getpid()
        assert len(set(processes.values())) == 3
        assert rows == {
            (f"DataLoader worker {worker}", f"worker {worker}"): {
                f"{stage} {step}" for step in range(worker, 12, 2) for stage in ("fetch", "collate")
            }
            for worker in range(2)
        } | {("training loop", "loop"): {f"{s} {n}" for n in range(12) for s in ("wait", "step")}}
        assert {(arrow["a"], arrow["b"]) for arrow in trace.query(ARROWS)} == {
            pair
            for step in range(12)
            for pair in ((f"fetch {step}", f"collate {step}"), (f"collate {step}", f"step {step}"))
        }
        assert trace.query("select * from stats where severity = 'error' and value > 0") == []


def test_without_workers_loading_is_inside_the_wait(tmp_path, page) -> None:
    run_profiled(tmp_path, workers=0)
    with opened(page, tmp_path / "trace.json.gz") as trace:
        inside = trace.query(
            "select child.name as name, parent.name as parent from slice child"
            " join slice parent on child.parent_id = parent.id"
        )
    assert {(event["name"], event["parent"]) for event in inside} == {
        (f"{stage} {step}", f"wait {step}") for step in range(12) for stage in ("fetch", "collate")
    }


def plain_steps(count: int) -> list[LoopStep]:
    return [
        LoopStep(
            request_ns=10_000 * k,
            receive_ns=10_000 * k + 4000,
            is_first=k == 0,
            ready_batches=None,
            samples=1,
            end_ns=10_000 * (k + 1),
        )
        for k in range(count)
    ]


def test_without_costs_of_batches_the_trace_has_only_the_loop() -> None:
    events = trace_loop(plain_steps(2), process_id=7, origin_ns=0)
    ranges = [(e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert ranges == [("wait 0", 0, 4), ("step 0", 4, 6), ("wait 1", 10, 4), ("step 1", 14, 6)]
    assert {e["ph"] for e in events} == {"M", "X"}


def test_the_trace_of_a_long_loop_is_limited() -> None:
    events = trace_loop(plain_steps(MAX_TRACE_STEPS + 1), process_id=7, origin_ns=0)
    steps = [e["args"]["item"] for e in events if e.get("args", {}).get("stage") == "step"]
    assert steps == list(range(MAX_TRACE_STEPS))


def test_a_trace_that_cannot_be_written_is_an_error(tmp_path) -> None:
    (tmp_path / "trace.json.gz").mkdir()
    with pytest.raises(headrace.ConfigError, match=r"cannot write .*trace\.json\.gz: is a dir"):
        run_profiled(tmp_path, workers=0)
