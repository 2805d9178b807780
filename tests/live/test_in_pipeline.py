"""Live sources as feeds of a pipeline: every frame is counted, and errors end the run."""

import pytest

from headrace.errors import OpenError
from headrace.live.address import parse_addresses
from headrace.live.live_source import LiveFrame
from headrace.live.realtime_source import live_source
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.waitable_source import MergedSource, WaitableSource
from live.reading import QUICK
from runtime.in_time import in_time


def merged(*texts, events, on_error="raise"):
    def feed(number, source):
        return WaitableSource(read=lambda waiter: source.frames(number, waiter, events.append))

    sources = [live_source(address, QUICK) for address in parse_addresses(texts)]
    feeds = [feed(number, source) for number, source in enumerate(sources)]
    return MergedSource(feeds=feeds, on_error=on_error)


def run_all(source):
    with Pipeline(source=source).run() as run:
        return list(run)


@pytest.mark.slow
def test_a_run_that_ends_early_counts_all_frames(rtsp):
    events = []
    source = merged(rtsp.url(), "test://?size=64x64&rate=50", rtsp.url(), events=events)

    def run_until_five():
        counts = {0: 0, 1: 0, 2: 0}
        with Pipeline(source=source).run() as run:
            for item in run:
                if isinstance(item.value, LiveFrame):
                    assert item.value.source == item.source
                    counts[item.source] += 1
                if min(counts.values()) >= 5:
                    break
            return run.flow()

    flow = in_time(run_until_five)
    assert flow.arrived == flow.delivered + sum(flow.dropped.values()) + flow.in_flight
    assert {event.source for event in events if event.kind == "joined"} == {0, 1, 2}


def test_with_on_error_end_the_other_sources_continue():
    events = []
    source = merged(
        "rtsp://127.0.0.1:9/x",
        "test://?size=64x64&rate=100&seconds=0.2",
        events=events,
        on_error="end",
    )

    items = in_time(lambda: run_all(source))
    assert sum(isinstance(item.value, LiveFrame) for item in items) == 20
    failed = [item.value for item in items if item.source == 0]
    assert [value.cause for value in failed] == ["source failed"]
    assert "refuses connections" in str(failed[0].error)


def test_by_default_a_failed_source_ends_the_run_with_its_error():
    source = merged("rtsp://user:hidden@127.0.0.1:9/x", events=[])
    with pytest.raises(OpenError) as raised:
        in_time(lambda: run_all(source))
    assert "hidden" not in str(raised.value)
