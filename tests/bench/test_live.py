"""Live benchmark: figures after the warm-up, the limit, and why the SLO is missed above it."""

from fractions import Fraction
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.records import local_provenance, timing
from headrace.bench.live_capacity import (
    LIVE,
    LatencySlo,
    LiveConfig,
    LiveRecord,
    LiveStep,
    _sources,
    announce,
    scale_of,
)
from headrace.bench.live_load import time_live_plan
from headrace.decode.open_decoder import open_index
from headrace.live.drop_policy import DropPolicy
from headrace.profiling.machine import provenance
from headrace.runs.live.live_batches import ModelRunner
from headrace.runs.live.live_pipeline import LivePlan
from headrace.runtime.waitable_source import Waiter
from headrace.testing.fake_clock import FakeClock
from runs.live.fake_sources import FakeSource
from runtime.in_time import in_time

MADE = provenance({}, ())


def taken(*, settling_seconds=0.1, run=None, overload="keep-all", **source):
    """Return a repetition over one source, a frame every 10 ms."""
    plan = LivePlan(
        sources=[FakeSource(**source)],
        model_runner=ModelRunner.of_callable(
            run or (lambda batch: batch.float().mean(dim=(1, 2, 3)))
        ),
        overload=DropPolicy.from_name(overload, is_live=source.get("base") != "full_speed"),
    )
    return in_time(
        lambda: time_live_plan(
            plan, settling_seconds=settling_seconds, provenance=MADE, clock=FakeClock(now_ns=1)
        )
    )


def test_frames_dropped_and_delivered_after_the_warm_up_are_counted():
    turn = taken(count=200, dropped=(150, 160))
    assert turn.dropped == {"damaged at decode": 2}
    assert 150 <= turn.delivered < 198, "the first tenth of a second does not count"
    assert turn.results == turn.delivered
    assert turn.drop_share == 2 / (turn.delivered + 2)
    assert list(turn.work_ms) == ["decode", "preprocess", "model"]
    assert turn.latency_p95 is not None
    assert turn.fps > 0


def test_drops_during_the_warm_up_do_not_count():
    assert taken(count=200, dropped=(1, 2), settling_seconds=1.0).dropped == {}


def test_at_full_speed_there_is_no_latency():
    turn = taken(count=50, base="full_speed", interval_ms=10)
    assert turn.latency_p50 is None
    assert turn.service_p50 is not None


def test_a_run_shorter_than_the_warm_up_counts_completely():
    turn = taken(count=20, settling_seconds=60.0)
    assert turn.delivered == 20


@given(
    delivered=st.integers(0, 500),
    dropped=st.dictionaries(st.sampled_from(["a at x", "b at y"]), st.integers(0, 500)),
)
def test_the_drop_share_is_relative_to_delivered_and_dropped_frames(delivered, dropped):
    ended = {"delivered": delivered, "dropped": dropped, "cpu_seconds": 2.5}
    turn = step(1, 2).model_copy(update=ended)
    total = sum(dropped.values())
    assert turn.drop_share == (pytest.approx(total / (total + delivered)) if total else 0)
    assert turn.cores == 0.5


def step(level, p95, broken_by=(), *, offered=None, dropped=0, others=0.0):
    usual = {"results": 200, "delivered": 200, "service_p50": 8, "jitter": 1, "fps_cv": None}
    usual |= {"per_second": (30,), "work_ms": {"decode": 2, "model": 6}}
    return LiveStep(
        level=level,
        offered_fps=offered or level,
        dropped={"overflow at decode": dropped} if dropped else {},
        fps=level,
        latency_p50=p95 / 2,
        latency_p95=p95,
        broken_by=broken_by,
        **usual | timing(5, others=others),
    )


def recorded(*steps, search="rate", least=5.0, most=4000.0):
    usual = {"p95_ms": 100, "max_drop": 0.01, "frame_rate": 30, "model_seconds": 0.5}
    options = {"search": search, "least": least, "most": most}
    return LiveRecord(provenance=local_provenance(), steps=steps, **usual, **options)


BROKEN = ("p95 latency 143 ms",)
USUAL = (step(30, 20), step(60, 40), step(120, 143, BROKEN, dropped=50), step(84.9, 80))


def streams(*steps):
    return recorded(*steps, search="streams", least=1, most=64)


def test_findings_on_the_limit(check_pages):
    busy = (step(30, 20, others=1), step(60, 143, BROKEN, others=1))
    cases = {
        "a limit": recorded(*USUAL),
        "the lowest rate breaks": recorded(step(30, 143, BROKEN), step(5, 143, BROKEN)),
        "one stream breaks": streams(step(1, 143, BROKEN, offered=30)),
        "all that was tried breaks": recorded(step(30, 143, BROKEN)),
        "nothing breaks, nor was all tried": recorded(step(30, 20)),
        "nothing breaks": streams(step(64, 20, offered=1920)),
        "a limit of streams": streams(step(2, 20), step(3, 143, BROKEN)),
        "other programs ran": recorded(*busy),
    }
    check_pages(LIVE, cases)


SLO = LatencySlo(p95_ms=100, max_drop=0.01)


@pytest.mark.parametrize(
    ("p95", "results", "dropped", "reasons"),
    [
        (100.0, 198, {"a": 2}, ()),
        (143.0, 198, {}, ("p95 latency 143 ms",)),
        (
            *(50.0, 79, {"overflow at decode": 9, "stale at batch": 3, "none": 0}),
            ("13 % dropped (overflow at decode: 9, stale at batch: 3)",),
        ),
        (50.0, 988, {"a": 12}, ("1.2 % dropped (a: 12)",)),
        (None, 1, {}, ("only 1 result, 90 are needed for a p95",)),
        (200.0, 0, {"a": 1}, ("p95 latency 200 ms", "100 % dropped (a: 1)")),
    ],
)
def test_reasons_an_slo_is_missed_are_reported(p95, results, dropped, reasons):
    figures = {"latency_p95": p95, "results": results, "delivered": results, "dropped": dropped}
    assert SLO.broken_by(step(1, 1).model_copy(update=figures)) == reasons


def test_an_slo_in_words():
    assert SLO.words == "p95 latency at most 100 ms, at most 1 % dropped"
    assert (
        LatencySlo(p95_ms=5, max_drop=0).words == "p95 latency at most 5.00 ms, at most 0 % dropped"
    )


def test_a_step_has_enough_results_for_a_p95_despite_drops():
    assert LatencySlo(p95_ms=1, max_drop=0.5).results_needed * 0.5 >= 90
    assert SLO.results_needed * 0.99 >= 90


def test_the_maximum_time_is_announced():
    assert announce(LiveConfig(videos=("a.mp4",))) == (
        "Time: at most 12 steps of 6.0 s, 21.2 s at the lowest rates"
    )
    config = LiveConfig(videos=("a.mp4",), seconds=60.0, steps=1)
    assert announce(config) == "Time: at most 1 step of 61.0 s"


@pytest.mark.parametrize(
    ("frame_rate", "first"), [(30.0, 30), (0.5, 5), (29.97003, 30), (9e9, 4e3)]
)
def test_the_search_begins_at_the_rate_of_the_video(frame_rate, first):
    assert scale_of(LiveConfig(videos=("a.mp4",)), frame_rate).first == first
    streams = scale_of(LiveConfig(videos=("a.mp4",), search="streams"), frame_rate)
    assert (streams.first, streams.is_whole) == (1, True)


@pytest.fixture
def index(clip, store):
    return open_index(clip(6, frame_rate=Fraction(10)), store)


def due_ns(source):
    return [frame.arrived_ns for frame in islice(source.frames(0, Waiter(FakeClock())), 3)]


def test_a_rate_is_one_stream_played_faster(index):
    [source] = _sources("rate", index, 25, 10)
    assert due_ns(source) == [0, 4 * 10**7, 8 * 10**7]


def test_streams_are_due_at_different_moments(index):
    first, second = _sources("streams", index, 2, 10)
    assert due_ns(first) == [0, 10**8, 2 * 10**8]
    assert due_ns(second) == [0, 10**8 + 5 * 10**7, 2 * 10**8 + 5 * 10**7]
