"""Live sources as feeds of a pipeline: nothing is lost without a cause, and an end is at once."""

import pytest

from headrace.errors import OpenError
from headrace.live.address import parse_addresses
from headrace.live.live_source import LiveFrame
from headrace.live.open_source import live_source
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.waitable_source import MergedSource, WaitableSource
from live.reading import QUICK
from runtime.in_time import in_time


def merged(*texts, events, on_error="raise"):
    def feed(number, source):
        return WaitableSource(read=lambda waiter: source.frames(number, waiter, events.append))

    sources = [live_source(address, QUICK) for address in parse_addresses(texts)]
    return MergedSource(feeds=[feed(*each) for each in enumerate(sources)], on_error=on_error)


def taken(source):
    with Pipeline(source=source).run() as run:
        return list(run)


@pytest.mark.slow
def test_a_run_that_ends_early_counts_all_that_came(rtsp):
    events = []
    source = merged(rtsp.url(), "test://?size=64x64&rate=50", rtsp.url(), events=events)

    def run_it():
        seen = {0: 0, 1: 0, 2: 0}
        with Pipeline(source=source).run() as run:
            for item in run:
                if isinstance(item.value, LiveFrame):
                    assert item.value.source == item.source
                    seen[item.source] += 1
                if min(seen.values()) >= 5:
                    break
            return run.flow()

    flow = in_time(run_it)
    assert flow.arrived == flow.delivered + sum(flow.dropped.values()) + flow.in_flight
    assert {event.source for event in events if event.kind == "joined"} == {0, 1, 2}


def test_a_source_that_fails_can_be_left_while_the_others_go_on():
    events = []
    source = merged(
        "rtsp://127.0.0.1:9/x",
        "test://?size=64x64&rate=100&seconds=0.2",
        events=events,
        on_error="end",
    )

    items = in_time(lambda: taken(source))
    assert sum(isinstance(item.value, LiveFrame) for item in items) == 20
    failed = [item.value for item in items if item.source == 0]
    assert [value.cause for value in failed] == ["source failed"]
    assert "refuses connections" in str(failed[0].error)


def test_a_source_that_fails_ends_the_run_by_its_error():
    source = merged("rtsp://user:hidden@127.0.0.1:9/x", events=[])
    with pytest.raises(OpenError) as raised:
        in_time(lambda: taken(source))
    assert "hidden" not in str(raised.value)
