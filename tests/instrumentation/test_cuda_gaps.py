"""A GPU that goes on while the loop waits has waited less than the loop."""

from dataclasses import dataclass

from headrace.instrumentation.cuda_gaps import DeviceWaits
from headrace.instrumentation.loader_info import LoaderFacts
from headrace.instrumentation.loop_recorder import LoopRecorder
from headrace.instrumentation.loop_session import session_of
from headrace.profiling.findings.verdict import find
from headrace.profiling.recorder import Recorder
from headrace.testing.fake_clock import FakeClock
from report.recorded import record


@dataclass
class Stream:
    """A stream that comes past an event when all before it is done."""

    clock: FakeClock
    done_ms: float = 0.0
    """When all that was queued is done."""

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


def observed(gpu_ms: float):
    """Fifty steps that wait 10 ms for a batch, and queue `gpu_ms` of work in no time."""
    clock = FakeClock()
    stream = Stream(clock)
    watch = LoopRecorder(clock=clock, device=DeviceWaits(stream.event))
    watch.begins()
    for _ in range(50):
        watch.asks()
        clock.advance(0.010)
        watch.gets([0])
        stream.work(gpu_ms)
        clock.advance(0.001)
    watch.asks()
    watch.ends()
    recorder = Recorder("loader", record(steps=1).provenance, clock=FakeClock())
    return session_of(
        recorder,
        watch,
        LoaderFacts(name="list"),
        wall_seconds=1.0,
        others_cpu_share=None,
    )


def test_a_gpu_with_work_for_the_whole_wait_waits_for_nothing() -> None:
    session = observed(gpu_ms=30.0)
    assert session.loader is not None
    assert session.loader.waits_of == "device"
    (finding,) = find(session)
    assert finding.bound_by == ("step",)
    assert finding.headline.startswith("The step itself takes 100 % of the time: ")
    assert "The GPU waits for data 0 % of the time." in finding.evidence


def test_a_gpu_that_runs_out_of_work_waits_for_the_rest_of_the_wait() -> None:
    """Of 11 ms it works 4, of which 1 pass before the loop waits."""
    (finding,) = find(observed(gpu_ms=4.0))
    assert finding.headline == "The GPU waits for data 64 % of the time: 7 of the 11 ms of a step."
