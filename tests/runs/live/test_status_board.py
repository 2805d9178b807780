"""Status of a live run, for its page."""

from collections import deque

import pytest

from headrace.errors import OpenError
from headrace.live.live_source import Event
from headrace.runs.live.live_batches import LiveSinks
from headrace.runs.live.live_pipeline import LivePipeline, SourceProgress
from headrace.runs.live.status_board import WINDOW_SECONDS, StatusBoard, source_state
from headrace.testing.fake_clock import FakeClock
from report.recorded import step_of
from runs.live.fake_sources import FakeSource
from runs.live.test_live_pipeline import plan
from runtime.in_time import in_time

SECOND = 1_000_000_000


def step(number, *, frames=1):
    return step_of(number, frames=frames, work_ms={"model": 5.0}, total_ms=20.0, arrived_ms=0.0)


def event(at_seconds, kind, words=""):
    return Event(at_ns=round(at_seconds * SECOND), source=0, kind=kind, words=words)


EVENTS = (
    [],
    [event(1, "joined", "joined")],
    [event(1, "joined"), event(4, "stalled", "no frame")],
    [event(1, "joined"), event(4, "disconnected"), event(6, "disconnected", "attempt 2")],
    [event(4, "disconnected"), event(7, "reconnected", "back")],
    [event(1, "joined", "joined"), event(4, "dropped")],
    [event(1, "joined"), event(4, "ended", "ended")],
)


def test_the_state_of_a_source_follows_from_its_events(holds):
    states = [source_state(events, SourceProgress(), start_ns=SECOND // 2) for events in EVENTS]
    lines = [f"{state} since {ns / SECOND} s: {words}".rstrip() for state, ns, words in states]
    holds("source_states.txt", "\n".join(lines) + "\n")


def test_a_failed_source_has_its_reason():
    progress = SourceProgress(error=OpenError("the host is down", source="x"), failed_ns=9 * SECOND)
    state = source_state([event(1, "joined")], progress, 0)
    assert state == ("failed", 9 * SECOND, "the host is down")


def test_before_the_first_result_figures_are_none():
    status = StatusBoard("tiny on x", "arrival", FakeClock()).status()
    assert (status.state, status.fps, status.latency) == ("starting", 0, None)
    assert (status.seconds_since_last_result, status.jitter_ms) == (None, None)


def test_the_rate_falls_to_0_and_the_latency_leaves_the_window():
    clock = FakeClock()
    board = StatusBoard("tiny on x", "arrival", clock)
    for number in range(10):
        clock.advance(0.1)
        board.add(step(number, frames=2))
    status = board.status()
    assert (status.state, status.fps, status.seconds_since_last_result) == ("running", 20, 0)
    assert (status.latency.count, status.latency.p50_ms, status.latency.p95_ms) == (10, 20, None)
    assert status.jitter_ms == pytest.approx(0)
    clock.advance(2)
    assert (board.status().fps, board.status().seconds_since_last_result) == (0, 2)
    clock.advance(WINDOW_SECONDS)
    assert board.status().latency.count == 0
    board.stop()
    assert board.status().state == "ended"


def test_at_full_speed_there_is_no_latency():
    board = StatusBoard("tiny on x", "full_speed", FakeClock())
    board.add(step(0))
    assert board.status().latency is None


def test_counts_queues_stages_and_sources_are_of_the_run():
    clock = FakeClock()
    board = StatusBoard("tiny on fake", "schedule", clock)
    pipeline = LivePipeline(plan(FakeSource(count=12, dropped=(3, 4))), clock)
    sinks = LiveSinks([], keeps_all=True, clock=clock)
    board.start(pipeline, sinks)

    def run():
        with pipeline:
            for number, item in enumerate(pipeline):
                board.add(step(number, frames=item.parts))

    in_time(run)
    clock.advance(1)
    words = "annotated.mp4: no space left on device"
    sinks.events.append(Event(at_ns=clock.now_ns(), source=None, kind="failed", words=words))
    status = board.status()
    assert (status.frames.arrived, status.frames.delivered, status.frames.dropped) == (12, 10, 2)
    (drop,) = status.drops
    assert (drop.stage, drop.cause, drop.items) == ("decode", "damaged", 2)
    (source,) = status.sources
    assert (source.name, source.state, source.frames) == ("fake", "live", 12)
    assert (source.height, source.width) == (4, 4)
    assert [stage.name for stage in status.stages] == ["decode", "preprocess", "model"]
    assert [queue.name for queue in status.queues] == ["decode", "preprocess"]
    assert [(e.kind, e.source, e.words) for e in status.events] == [
        ("failed", "", words),
        ("joined", "fake", "joined 5 ms behind"),
    ]
    assert isinstance(pipeline.progress[0].recent_ns, deque)
