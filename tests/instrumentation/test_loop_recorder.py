"""The wait of a GPU is its idle time between two steps, not the wait of the loop."""

import sys
from dataclasses import dataclass

from headrace.instrumentation.dataloader_hook import LoaderInfo
from headrace.instrumentation.loop_recorder import CudaGaps, LoopRecorder
from headrace.instrumentation.loop_session import build_session
from headrace.profiling.findings.verdict import find
from headrace.profiling.recorder import Recorder
from headrace.testing.fake_clock import FakeClock
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
    """Return the session of 50 steps: a wait of 10 ms for a batch, then `gpu_ms` of queued work."""
    clock = FakeClock()
    stream = Stream(clock)
    loop = LoopRecorder(clock=clock, gaps=CudaGaps(stream.event))
    loop.start_epoch()
    for _ in range(50):
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


def test_a_gpu_without_work_is_idle_for_the_rest_of_the_wait() -> None:
    """The GPU works 4 of 11 ms, 1 ms of them before the loop waits."""
    session = simulate(gpu_ms=4.0)
    (finding,) = find(session)
    assert finding.headline == "The GPU waits for data 64 % of the time: 7 of the 11 ms of a step."
    assert session.loader.thread_cpu_ms >= 0.0
    if sys.platform == "linux":
        assert {*session.steps.core_wait_ms} == {"wait", "step"}
