"""arrived = delivered + dropped + in flight, at every moment."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.flow import FlowMeter

CAUSES = st.sampled_from([("source", "overflow"), ("model", "stale"), ("model", "blurred")])


@given(st.lists(st.none() | st.tuples(st.just("deliver"), st.integers(1, 4)) | CAUSES))
def test_what_arrived_is_delivered_dropped_or_on_its_way(steps):
    meter, on_their_way = FlowMeter(), 0
    for step in steps:
        if step is None:
            meter.arrive()
            on_their_way += 1
        elif step[0] == "deliver":
            items = min(step[1], on_their_way)
            meter.deliver(items)
            on_their_way -= items
        elif on_their_way:
            meter.drop(*step, 1)
            on_their_way -= 1
        found = meter.statistics()
        assert found.in_flight == on_their_way
        assert found.arrived == found.delivered + sum(found.dropped.values()) + found.in_flight


def test_drops_are_counted_by_stage_and_cause():
    meter = FlowMeter()
    for at, cause, items in [("model", "stale", 2), ("source", "stale", 1), ("model", "stale", 3)]:
        meter.drop(at, cause, items)
    assert meter.statistics().dropped == {("model", "stale"): 5, ("source", "stale"): 1}
    assert meter.dropped_at("model") == {"stale": 5}
    assert meter.dropped_at("sink") == {}
