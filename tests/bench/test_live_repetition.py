"""What a stretch of a live flow came to, once it had settled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bench.live_load import LiveTurn, take_live_turn
from headrace.live.overload import Overload
from headrace.profiling.machine import provenance
from headrace.runs.live.engine import Engine
from headrace.runs.live.flow import LivePlan
from headrace.testing.fake_clock import FakeClock
from runs.live.fake_sources import FakeSource
from runtime.in_time import in_time

MADE = provenance({}, ())


def taken(*, settling_seconds=0.1, run=None, overload="every-frame", **source):
    """The turn of a flow over one source, a frame every 10 ms."""
    plan = LivePlan(
        sources=[FakeSource(**source)],
        engine=Engine.of_callable(run or (lambda batch: batch.float().mean(dim=(1, 2, 3)))),
        overload=Overload.chosen(overload, is_live=source.get("base") != "full_speed"),
    )
    return in_time(
        lambda: take_live_turn(
            plan, settling_seconds=settling_seconds, made=MADE, clock=FakeClock(now_ns=1)
        )
    )


def test_what_was_dropped_and_delivered_after_settling_is_counted():
    turn = taken(count=200, dropped=(150, 160))
    assert turn.dropped == {"damaged at decode": 2}
    assert 150 <= turn.delivered < 198, "the first tenth of a second is left out"
    assert turn.results == turn.delivered
    assert turn.drop_share == 2 / (turn.delivered + 2)
    assert list(turn.work_ms) == ["decode", "preprocess", "model"]
    assert turn.latency_p95 is not None
    assert turn.fps > 0


def test_what_was_dropped_while_it_settled_is_not():
    assert taken(count=200, dropped=(1, 2), settling_seconds=1.0).dropped == {}


def test_at_full_speed_there_is_no_latency():
    turn = taken(count=50, base="full_speed", interval_ms=10)
    assert turn.latency_p50 is None
    assert turn.service_p50 is not None


def test_a_flow_that_never_settles_counts_as_a_whole():
    turn = taken(count=20, settling_seconds=60.0)
    assert turn.delivered == 20


@given(
    delivered=st.integers(0, 500),
    dropped=st.dictionaries(st.sampled_from(["a at x", "b at y"]), st.integers(0, 500)),
)
def test_the_share_of_drops_is_of_all_that_ended(delivered, dropped):
    turn = LiveTurn(
        seconds=1,
        cpu_seconds=0.5,
        results=delivered,
        delivered=delivered,
        dropped=dropped,
        fps=0,
        service_p50=None,
        latency_p50=None,
        latency_p95=None,
        jitter=None,
        fps_cv=None,
        per_second=(),
        work_ms={},
    )
    lost = sum(dropped.values())
    assert turn.drop_share == (pytest.approx(lost / (lost + delivered)) if lost else 0)
    assert turn.cores == 0.5
