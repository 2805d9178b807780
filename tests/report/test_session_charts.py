"""The charts show the figures of the session."""

import math

import plotly.graph_objects as go
import pytest

from headrace.profiling.metrics import Metrics
from headrace.profiling.session import Session
from headrace.report.folder import render_html
from headrace.report.session_charts import Chart, charts, loss_chart
from headrace.report.totals import training_totals
from profiling.loops import Loop, simulate_loop
from profiling.sessions import extracted, trained
from report.recorded import changed, record


def drawn(session: Session) -> dict[str, Chart]:
    return {chart.name: chart for chart in charts(session, Metrics.of(session))}


def trace(session: Session, chart: str, name: str) -> go.Bar | go.Scatter:
    (series,) = [item for item in drawn(session)[chart].figure.data if item.name == name]
    return series


CHARTS = {
    0: "",
    **dict.fromkeys((1, 4), "stage-use queues decoded"),
    5: "stage-use stage-times service-times queues decoded",
    282: "stage-use stage-times frame-rate service-times queues decoded",
}


@pytest.mark.parametrize("steps", CHARTS)
def test_charts_without_figures_are_left_out(steps: int):
    """Three of the steps are warm-up."""
    assert list(drawn(record(steps=steps))) == CHARTS[steps].split()


def test_stage_times_are_those_of_the_steps_after_warm_up():
    session = record(steps=20)
    series = trace(session, "stage-times", "model")
    assert series.x == tuple(range(3, 20))
    assert series.y == tuple(round(value, 3) for value in session.steps.work_ms["model"][3:])


def test_the_bars_of_a_long_run_are_means_of_groups_of_steps():
    session = record(steps=1003, warmup_steps=3)
    chart = drawn(session)["stage-times"]
    series = trace(session, "stage-times", "decode")
    assert "each bar the mean of 5 steps" in chart.reading
    assert (len(series.x), series.x[:2]) == (200, (3, 8))
    assert series.y[0] == pytest.approx(sum(session.steps.work_ms["decode"][3:8]) / 5, abs=1e-3)


def test_the_mean_of_a_partial_group_uses_its_own_size():
    session = record(steps=484, warmup_steps=3)
    series = trace(session, "stage-times", "sink")
    assert len(series.x) == 161
    assert series.y[-1] == pytest.approx(session.steps.work_ms["sink"][-1], abs=1e-3)


def test_the_frame_rate_is_drawn_second_by_second():
    session = record()
    per_second = Metrics.of(session).per_second
    series = trace(session, "frame-rate", "frames/s")
    assert series.y == per_second.counts
    assert series.x[0] == per_second.first_second + 0.5


@pytest.mark.parametrize("workers", [0, 2])
def test_the_page_of_a_training_loop_has_its_own_words(workers: int) -> None:
    """A loop has no decoding, preprocessing and inference, and need not be steady."""
    page = render_html(simulate_loop(Loop(fetch=9, step=40, workers=workers)))
    for words in (
        "L_dec",
        "inference",
        "FPS CV",
        "Latency jitter",
        "decoding threads",
        "Frames per sec",
    ):
        assert words not in page
    assert "Samples per second" in page
    assert ("The stages overlap" in page) == bool(workers)
    assert ("They follow each other" in page) == (not workers)


def test_a_stall_in_a_long_run_is_visible():
    session = record(steps=1500)
    late = [row.total_ms + (5000 if row.step > 700 else 0) for row in session.steps.rows()]
    session = changed(session, steps=changed(session.steps, total_ms=tuple(late)))
    series = trace(session, "frame-rate", "slowest second")
    assert min(series.y) == 0


def test_the_histogram_counts_every_measured_step_once():
    assert sum(trace(record(), "service-times", "steps").y) == 279


def test_an_outlier_does_not_add_bars():
    session = record()
    work = session.steps.work_ms
    work = {**work, "model": (*work["model"][:-1], 1e9)}
    session = changed(session, steps=changed(session.steps, work_ms=work))
    assert len(trace(session, "service-times", "steps").y) <= 60


@pytest.mark.parametrize(("steps", "marks"), [(282, ["p50 353 ms", "p95 388 ms"]), (60, ["p50"])])
def test_percentiles_are_marked_if_there_are_enough_samples(steps, marks):
    notes = drawn(record(steps=steps))["service-times"].figure.layout.annotations
    assert all(note.text.startswith(mark) for note, mark in zip(notes, marks, strict=True))


def test_queue_names_are_escaped_for_plotly():
    queue = changed(record().queues[0], name="<a href='x'>")
    series = trace(record(queues=(queue,)), "queues", "mean")
    assert series.y == ("&lt;a href='x'&gt; → preprocess",)


@pytest.mark.parametrize(("others", "is_shown"), [(0.0, True), (0.4, False)])
def test_waits_for_a_core_are_shown_only_on_a_quiet_machine(others, is_shown):
    session = record(others_cpu_share=others)
    stages = [
        changed(stage, core_wait_seconds=0.25 * stage.busy_seconds) for stage in session.stages
    ]
    waiting = changed(session, stages=tuple(stages))
    names = [series.name for series in drawn(waiting)["stage-use"].figure.data]
    assert ("waits for a core" in names) == is_shown
    if is_shown:
        whole = trace(session, "stage-use", "busy").x
        assert trace(waiting, "stage-use", "busy").x == pytest.approx([0.75 * x for x in whole])
        waits = trace(waiting, "stage-use", "waits for a core").x
        assert waits == pytest.approx([0.25 * x for x in whole])
        assert "no core was free" in drawn(waiting)["stage-use"].reading


def test_the_chart_has_decoded_and_delivered_frames():
    (series,) = drawn(record())["decoded"].figure.data
    assert (series.y, series.x) == (("delivered", "decoded"), (4500, 4500))


def test_charts_of_sequential_parts_say_so():
    pages = drawn(extracted(10, 85, 5))
    assert "In each worker the parts follow each other" in pages["stage-use"].reading
    assert "They follow each other" in pages["stage-times"].reading
    pages = drawn(trained(1, 1, 5, 2, 1))
    assert list(pages)[:3] == ["loss", "stage-use", "stage-times"]
    assert "They follow each other" in pages["stage-times"].reading
    shades = [bar.opacity for bar in pages["stage-times"].figure.data]
    assert shades == [1.0, 1.0, 1.0, 0.65, 0.35]


def test_the_loss_is_drawn_over_the_steps_and_smoothed():
    points, mean = loss_chart(trained(1, 1, 5, 2, 1)).figure.data
    assert (points.x[:2], points.y[0]) == ((0, 1), round(math.log(2), 5))
    assert (mean.name, mean.x[0], len(mean.x)) == ("mean of 5 steps", 4, 96)
    assert mean.y[0] == pytest.approx(sum(points.y[:5]) / 5, abs=1e-4)
    assert loss_chart(record()) is None
    assert not list(training_totals(record()))


def test_a_loss_that_is_nan_is_left_out_of_the_chart():
    session = trained(1, 1, 5, 2, 1, steps=20)
    steps = changed(session.steps, loss=(*session.steps.loss[:-1], math.nan))
    assert len(loss_chart(changed(session, steps=steps)).figure.data[0].x) == 19
