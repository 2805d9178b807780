"""Each metric follows its definition."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.profiling.metrics import Copies, Cost, Metrics
from headrace.profiling.run_records import ROLES, StageRecord
from headrace.profiling.session import Session, Steps
from headrace.report.totals import totals
from profiling.sessions import live
from report.recorded import changed, record, stage_record, step_of

TWO_AND_FOUR = [
    second + place / count for second, count in enumerate([2, 4] * 5, 1) for place in range(count)
]
"""Times of the outputs of seconds with 2, 4, 2, 4, ... outputs: mean 3, standard deviation 1."""


def session_with_outputs(
    ends_seconds: Sequence[float], *, frames: int = 1, warmup_steps: int = 0
) -> Session:
    """Return a session with a step of 50 ms, 15 of them work, for each output time."""
    steps = Steps.of(
        step_of(
            step,
            frames=frames,
            started_ms=end * 1e3 - 50,
            work_ms={"decode": 1.0, "preprocess": 2.0, "model": 4.0, "sink": 8.0},
            total_ms=50.0,
        )
        for step, end in enumerate(ends_seconds)
    )
    return record(steps=0, warmup_steps=warmup_steps).model_copy(update={"steps": steps})


def figures(metrics: Metrics, names: Sequence[str]) -> dict[str, Any]:
    """Return figures by dotted names; a missing figure is None."""
    values = {}
    for name in names:
        value: Any = metrics
        for part in name.split("."):
            value = getattr(value, part, None)
        values[name] = value
    return values


UNEVEN = [0.5, 0.9, 1, 1.2, 1.999, 3.5, 4, 4.2]
WARMED_UP = {"steps": 2, "startup_seconds": 6, "fps_mean": 2}
WHOLE = {"per_second.first_second": 1, "per_second.counts": (3, 0, 1), "fps_cv": None}
OUTPUTS = {
    "intervals are counted, not ends": ([1, 1.5, 2, 2.5], {"fps_mean": 2}),
    "frames of the first output do not count": ([1, 1.5, 2], {"fps_mean": 32}, {"frames": 16}),
    "warm-up counts as start-up": ([5, 6, 7, 7.5], WARMED_UP, {"warmup_steps": 2}),
    "start-up ends with the first step": ([5, 6], {"startup_seconds": 4.95}),
    "only whole seconds count, also those without an output": (UNEVEN, WHOLE),
    "spread per second": ([0.5, *TWO_AND_FOUR, 11.5], {"fps_cv": 1 / 3}),
    "nine whole seconds": ([s + 0.5 for s in range(11)], {"fps_cv": None}),
    "ten whole seconds": ([s + 0.5 for s in range(12)], {"fps_cv": 0}),
    "jitter is a spread": ([1, 1.1, 1.4, 1.5, 1.8], {"jitter_ms": 100, "interval_cv": 0.5}),
    "one interval has no jitter": ([1, 1.1], {"jitter_ms": None}),
    "work without waiting": ([1, 2], {"service_ms.mean": 15}),
}
"""Name → (times of the outputs, figures, options of the session)."""


@pytest.mark.parametrize("name", OUTPUTS)
def test_figures_of_outputs_follow_their_definitions(name):
    ends, expected, *options = OUTPUTS[name]
    session = session_with_outputs(ends, **dict(*options))
    values = figures(Metrics.of(session), list(expected))
    assert values == {name: pytest.approx(value) for name, value in expected.items()}


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([0.5, 12.5], ("not defined", "no frame in 11 whole seconds")),
        ([0.5, 1.5, 3.5], ("n too small", "2 whole seconds, 10 are needed")),
        ([s + 0.5 for s in range(12)], ("0", "below 0.05 is steady")),
    ],
)
def test_a_missing_spread_of_the_frame_rate_has_its_reason(ends, expected):
    session = session_with_outputs(ends)
    rows = {row.label: row for row in totals(session, Metrics.of(session))}
    assert (rows["FPS CV"].value, rows["FPS CV"].reading) == expected


@given(st.lists(st.floats(0.01, 3.0), min_size=1, max_size=60), st.integers(1, 8))
def test_whole_seconds_have_exactly_the_frames_between_them(gaps, frames):
    ends = [1.0 + sum(gaps[:place]) for place in range(1, len(gaps) + 1)]
    session = session_with_outputs(ends, frames=frames)
    ends = [(row.started_ms + row.total_ms) / 1e3 for row in session.steps.rows()]
    per_second = Metrics.of(session).per_second
    start, stop = math.ceil(ends[0]), math.floor(ends[-1])
    if per_second is None:
        assert stop <= start
        return
    assert (per_second.first_second, len(per_second.counts)) == (start, stop - start)
    assert sum(per_second.counts) == frames * sum(start <= end < stop for end in ends)


def test_the_smallest_positive_part_of_the_ratio_is_one():
    def ratio(*milliseconds):
        stages = dict(zip(("decode", "preprocess", "model", "sink"), milliseconds, strict=True))
        roles = {role: stages[role] for role in ROLES if role in stages}
        return Cost(stages=stages, roles=roles).ratio

    assert ratio(30.0, 10.0, 25.0, 1.0) == (3.0, 1.0, 2.5)
    assert ratio(30.0, 0.0, 15.0, 1.0) == (2.0, 0.0, 1.0)
    assert ratio(0.0, 0.0, 0.0, 1.0) is None


def test_amplification_is_decoded_by_delivered_frames():
    session = record(steps=1)
    decode = changed(session.decode, frames_decoded=96, frames_delivered=32)
    assert Metrics.of(changed(session, decode=decode)).amplification == 3.0


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_a_run_of_a_few_steps_has_no_figures_that_need_more(steps):
    """Three of them are warm-up."""
    metrics = Metrics.of(record(steps=steps))
    assert metrics.steps == max(0, steps - 3)
    assert (metrics.fps_mean, metrics.jitter_ms) == (None, None)
    assert (metrics.service_ms is None) == (steps <= 3)
    assert (metrics.amplification is None) == (steps == 0)


ARRIVALS = {"latency.base": "arrival", "latency.oldest_ms": None, "capture_ms": None}
LATENCIES = {"latency.ms.p50": 20, "latency.oldest_ms.p50": 50, "capture_ms.p50": 55}


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        (live(), {"stalls.count": 0, "stalls.seconds": 0, **ARRIVALS}),
        (live(stalled_after=100), {"stalls.count": 1, "stalls.seconds": 5.04}),
        (live(oldest_ms=30.0, captured_ms=55.0), LATENCIES),
        (record(), {"stalls": None}),
    ],
)
def test_stalls_and_the_bases_of_latency_are_separate(session, expected):
    values = figures(Metrics.of(session), list(expected))
    assert values == {name: pytest.approx(value) for name, value in expected.items()}


def copying(*stages: StageRecord, brought_down: int = 0, decode: str = "pyav:cpu") -> Session:
    session = record(configuration={"decode": decode})
    decoded = changed(session.decode, brought_down_bytes=brought_down)
    return changed(session, stages=(*session.stages, *stages), decode=decoded)


def test_copies_to_the_cpu_are_d2h_and_all_others_h2d():
    """Records without a target are transfers to the model."""
    session = copying(
        stage_record("transfer", "transfer", moved_bytes=6000, moved_to="cuda"),
        stage_record("transfer inside the model", "transfer", moved_bytes=1000, moved_to=None),
        stage_record("transfer to the sinks", "transfer", moved_bytes=2000, moved_to="cpu"),
        brought_down=500,
    )
    frames = sum(session.steps.frames)
    assert Copies.of(session) == Copies(h2d_bytes=7000 / frames, d2h_bytes=2500 / frames)


@pytest.mark.parametrize("decode", ["pyav:cpu", "torchcodec:cpu"])
def test_without_a_gpu_there_are_no_copies(decode):
    transfer = stage_record("transfer", "transfer", moved_bytes=0, moved_to="cpu")
    session = copying(transfer, decode=decode)
    assert Copies.of(session) is None
    assert "Copied" not in [row.label for row in totals(session, Metrics.of(session))]


def test_zero_copies_are_reported_if_a_gpu_decodes():
    session = copying(decode="pyav:cuda:0")
    (row,) = (row for row in totals(session, Metrics.of(session)) if row.label == "Copied")
    assert row.value == "0 MB H2D, 0 MB D2H"
    assert row.reading == "per frame, between CPU and GPU; 0 is best"


def test_an_extraction_is_timed_from_the_start_of_its_first_chunk():
    """Several workers finish their chunks at nearly the same time."""
    ends = enumerate((3_950, 4_000))
    steps = [step_of(k, frames=10, started_ms=50, total_ms=end) for k, end in ends]
    session = changed(record(), kind="extract", warmup_steps=0, steps=Steps.of(steps))
    assert Metrics.of(session).fps_mean == pytest.approx(5)
