"""Each figure against its definition."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.profiling.metrics import Cost, Metrics
from headrace.profiling.session import Session
from headrace.profiling.stages import ROLES
from headrace.profiling.steps import Step, Steps
from report.recorded import record


def session_with_outputs(
    ends_seconds: Sequence[float], *, frames: int = 1, warmup_steps: int = 0
) -> Session:
    """One step per output time; each worked 1 + 2 + 4 + 8 ms and waited the rest of 50 ms."""
    steps = Steps.of(
        Step(
            step=step,
            first_index=step * frames,
            frames=frames,
            started_ms=end * 1e3 - 50,
            work_ms={"decode": 1.0, "preprocess": 2.0, "model": 4.0, "sink": 8.0},
            total_ms=50.0,
        )
        for step, end in enumerate(ends_seconds)
    )
    changes = {"steps": steps, "warmup_steps": warmup_steps}
    return record(steps=0).model_copy(update=changes)


def cost(decode: float, preprocess: float, model: float, sink: float) -> Cost:
    """Return what a step costs, with stages called by their roles."""
    stages = {"decode": decode, "preprocess": preprocess, "model": model, "sink": sink}
    return Cost(stages=dict(stages), roles={role: stages[role] for role in ROLES if role in stages})


def test_mean_rate_counts_intervals_not_outputs() -> None:
    metrics = Metrics.of(session_with_outputs([1.0, 1.5, 2.0, 2.5]))
    assert metrics.fps_mean == 2.0  # 3 frames in 1.5 s, not 4


def test_the_frames_of_the_first_output_belong_to_the_time_before_it() -> None:
    metrics = Metrics.of(session_with_outputs([1.0, 1.5, 2.0], frames=16))
    assert metrics.fps_mean == 32.0


def test_warm_up_is_left_out_and_counts_as_start_up() -> None:
    metrics = Metrics.of(session_with_outputs([5.0, 6.0, 7.0, 7.5], warmup_steps=2))
    assert (metrics.steps, metrics.startup_seconds, metrics.fps_mean) == (2, 6.0, 2.0)


def test_start_up_without_warm_up_ends_where_the_first_step_begins() -> None:
    assert Metrics.of(session_with_outputs([5.0, 6.0])).startup_seconds == pytest.approx(4.95)


def test_seconds_are_counted_whole() -> None:
    """The partial seconds before 1 and after 4 are left out; a second without output counts 0."""
    ends = [0.5, 0.9, 1.0, 1.2, 1.999, 3.5, 4.0, 4.2]
    per_second = Metrics.of(session_with_outputs(ends)).per_second
    assert per_second is not None
    assert (per_second.first_second, per_second.counts) == (1, (3, 0, 1))


@given(
    st.lists(st.floats(0.01, 3.0), min_size=1, max_size=60),
    st.integers(1, 8),
)
def test_whole_seconds_hold_exactly_the_frames_between_them(gaps: list[float], frames: int) -> None:
    ends = [1.0 + sum(gaps[:place]) for place in range(1, len(gaps) + 1)]
    session = session_with_outputs(ends, frames=frames)
    ends = [
        (started + total) / 1e3
        for started, total in zip(session.steps.started_ms, session.steps.total_ms, strict=True)
    ]
    per_second = Metrics.of(session).per_second
    start, stop = math.ceil(ends[0]), math.floor(ends[-1])
    if per_second is None:
        assert stop <= start
        return
    assert (per_second.first_second, len(per_second.counts)) == (start, stop - start)
    assert sum(per_second.counts) == frames * sum(start <= end < stop for end in ends)


def test_fps_cv_is_the_spread_of_counts_per_second() -> None:
    """Seconds of 2, 4, 2, 4, ... outputs: mean 3, std 1."""
    ends = [0.5]
    for second in range(1, 11):
        count = 2 if second % 2 else 4
        ends += [second + place / count for place in range(count)]
    metrics = Metrics.of(session_with_outputs([*ends, 11.5]))
    assert metrics.fps_cv == pytest.approx(1 / 3)


def test_fps_cv_needs_ten_whole_seconds() -> None:
    nine = Metrics.of(session_with_outputs([0.5 + second for second in range(11)]))
    ten = Metrics.of(session_with_outputs([0.5 + second for second in range(12)]))
    assert nine.per_second is not None
    assert (len(nine.per_second.counts), nine.fps_cv) == (9, None)
    assert ten.fps_cv == 0.0


def test_jitter_is_the_spread_of_the_intervals() -> None:
    metrics = Metrics.of(session_with_outputs([1.0, 1.1, 1.4, 1.5, 1.8]))
    assert metrics.jitter_ms == pytest.approx(100.0)
    assert metrics.interval_cv == pytest.approx(0.5)


def test_one_interval_has_no_jitter() -> None:
    assert Metrics.of(session_with_outputs([1.0, 1.1])).jitter_ms is None


def test_service_time_is_work_not_waiting() -> None:
    service = Metrics.of(session_with_outputs([1.0, 2.0])).service_ms
    assert service is not None
    assert service.mean == 15.0


def test_the_ratio_takes_the_smallest_as_one() -> None:
    found = cost(30.0, 10.0, 25.0, 1.0)
    assert found.ratio == (3.0, 1.0, 2.5)


def test_the_ratio_skips_what_costs_nothing() -> None:
    found = cost(30.0, 0.0, 15.0, 1.0)
    assert found.ratio == (2.0, 0.0, 1.0)
    assert cost(0.0, 0.0, 0.0, 1.0).ratio is None


def test_amplification_is_decoded_per_delivered() -> None:
    session = record(steps=1)
    changes = {"frames_decoded": 96, "frames_delivered": 32}
    decode = session.decode.model_copy(update=changes)
    assert Metrics.of(session.model_copy(update={"decode": decode})).amplification == 3.0


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_a_run_of_a_few_steps_has_no_figure_it_cannot_have(steps: int) -> None:
    """Three of them are warm-up."""
    metrics = Metrics.of(record(steps=steps))
    assert metrics.steps == max(0, steps - 3)
    assert metrics.fps_mean is None
    assert metrics.jitter_ms is None
    assert (metrics.service_ms is None) == (steps <= 3)
    assert (metrics.amplification is None) == (steps == 0)
