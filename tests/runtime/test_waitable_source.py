"""Waiting sources are starved, not busy; they can be woken, and several can be merged."""

import threading
from functools import partial
from itertools import count

import pytest

from headrace.errors import MediaError, StageError
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.queue import Cancelled
from headrace.runtime.stage import Aggregate, DroppedItem, SlidingWindows, Span, Stage
from headrace.runtime.waitable_source import MergedSource, WaitableSource
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import fails_on, happens, headrace_threads, left_by, ran

MS = 1_000_000


def test_a_span_starts_after_the_wait_which_is_starved():
    """A frame every 20 ms, with 5 ms of work each."""
    clock = FakeClock()

    def read(waiter):
        for frame in range(3):
            waiter.until(frame * 20 * MS)
            clock.advance(0.005)
            yield frame

    items, [source], _ = ran(WaitableSource(read=read), how={"clock": clock})
    starts = [0, 20 * MS, 40 * MS]
    assert [item.spans for item in items] == [(Span("source", t, t + 5 * MS),) for t in starts]
    assert source.starved_seconds == pytest.approx(0.030)  # twice the 15 ms that remain
    assert source.busy_seconds == pytest.approx(0.015)


def camera(started, ended):
    """Yields one frame, then waits forever."""

    def read(waiter):
        try:
            yield 0
            started.set()
            waiter.wait_for(lambda: False)
        finally:
            ended.append(threading.current_thread().name)

    return WaitableSource(read=read)


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("cameras", [1, 2])
def test_a_waiting_source_is_woken_at_any_end_of_the_run(error, cameras):
    events, ended = [threading.Event() for _ in range(cameras)], []
    feeds = [camera(started, ended) for started in events]
    source = feeds[0] if cameras == 1 else MergedSource(feeds=feeds)

    line = Pipeline(source=source, stages=[Stage(name="same", function=abs)])
    with left_by(error) as leave, line.run() as run:
        for _ in events:
            next(run)
        for started in events:
            happens(started)
        leave()
    assert len(ended) == cameras
    assert not headrace_threads()


@pytest.mark.parametrize("waits", [False, True])
def test_a_failure_ends_the_source_before_it_is_raised(waits):
    source_ended = threading.Event()

    def read(waiter=None):
        try:
            yield from range(2) if waits else count()
            waiter.wait_for(lambda: False)
        finally:
            source_ended.set()

    stages = [
        Stage(name=str(n), function=fails_on(1, ValueError()) if n == 1 else abs) for n in range(3)
    ]
    source = WaitableSource(read=read) if waits else read()
    with Pipeline(source=source, stages=stages).run() as run:
        assert next(run).value == 0
        happens(source_ended)
        with pytest.raises(StageError):
            next(run)


def test_cancelled_raised_by_a_source_itself_is_a_failure():
    """Only a woken waiter ends a source without an error."""

    def read(waiter):
        raise Cancelled
        yield

    with pytest.raises(StageError, match="failed on item 0: Cancelled"):
        ran(WaitableSource(read=read))


def test_merged_sources_run_in_parallel_and_items_have_their_source():
    together = threading.Barrier(3)

    def source(values):
        together.wait(30)
        yield from values

    merged = MergedSource(feeds=[source("ab"), source("cde"), source("")])

    items, [statistics, _], flow = ran(merged, Stage(name="upper", function=str.upper))
    assert [item.index for item in items] == list(range(5))
    by_source = {n: [item.value for item in items if item.source == n] for n in range(3)}
    assert by_source == {0: ["A", "B"], 1: ["C", "D", "E"], 2: []}
    assert (statistics.workers, statistics.items, flow.arrived) == (3, 5, 5)


def test_groups_have_one_source_or_none():
    merged = MergedSource(feeds=["ab", "cd"])
    pairs = partial(SlidingWindows, length=2)
    alone = Aggregate(
        name="clips", grouping=partial(pairs, key=lambda item: item.source), function="".join
    )
    mixed = Aggregate(name="batch", grouping=pairs, function=tuple)
    clips, *_ = ran(merged, alone)
    assert {(item.source, item.value) for item in clips} == {(0, "ab"), (1, "cd")}
    assert [item.source for item in ran(merged, alone, mixed)[0]] == [None]


def failing(error):
    yield "x"
    raise error


def test_a_failed_source_ends_the_run():
    ended = []
    merged = MergedSource(feeds=[failing(OSError("unplugged")), camera(threading.Event(), ended)])
    with pytest.raises(StageError, match="OSError: unplugged"):
        ran(merged)
    assert ended == ["headrace-source-1"]


def test_a_failed_source_may_end_alone_with_its_error():
    error = MediaError("stream is gone", source="rtsp://door")
    items, _, flow = ran(MergedSource(feeds=[failing(error), "abc"], on_error="end"))
    first, second = ([item.value for item in items if item.source == k] for k in (0, 1))
    assert (first, second) == (["x", DroppedItem("source failed", error)], ["a", "b", "c"])
    assert (flow.arrived, flow.delivered, flow.in_flight) == (5, 4, 0)
    assert flow.dropped == {("source", "source failed"): 1}


def test_leaving_early_ends_merged_sources_that_have_no_end():
    with Pipeline(source=MergedSource(feeds=[count(), count(), count()])).run() as run:
        assert next(run).index == 0
    assert not headrace_threads()
