"""The pages in a real browser: drawn, without console messages and without requests."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from bench import test_sampling
from bench.test_sampling import USUAL
from headrace.bench.sampling_report import SAMPLING
from headrace.profiling.comparison import compare
from headrace.profiling.findings.utilization import stage_loads
from headrace.profiling.session import Session
from headrace.report.benchmark_page import render_benchmark
from headrace.report.comparison_page import render_comparison
from headrace.report.folder import render_html
from headrace.report.launch_page import launch_page
from headrace.sinks.video_file import VideoFile
from profiling.sessions import session
from report.recorded import changed, record
from report.test_benchmark_page import BENCHMARK
from report.test_folder import hostile
from report.test_text import LAUNCHES

DRAWN = """[...document.querySelectorAll('.chart')].map(chart => [
    chart.id,
    chart.querySelectorAll('svg.main-svg').length,
    chart.querySelectorAll('g.trace').length,
    Math.round(chart.getBoundingClientRect().width),
])"""
"""[id, number of drawings, number of traces, width] of each chart."""

BAR_LABELS = """[...document.querySelectorAll("#chart-stage-use text.bartext")].map(label => {
    const box = label.getBoundingClientRect();
    return [Math.round(box.top), box.left, box.right];
})"""
"""[top, left, right] of each label of the utilization chart."""
TICK_COLOR = "getComputedStyle(document.querySelector('.xtick text')).fill"


def write_page(text: str, folder: Path) -> Path:
    """Write a page; return its file."""
    file = folder / "report.html"
    file.write_text(text, encoding="utf-8")
    return file


def write_report(session: Session, folder: Path) -> Path:
    """Write the page of a session; return its file."""
    return write_page(render_html(session), folder)


CHANGED = changed(session(1).provenance, configuration={"weights": "x" * 300})
COMPARED = {
    "before": session(1),
    "after": session(2, model_ms=120.0, provenance=CHANGED),
    "third": session(3),
}
RUN_CHARTS = {
    **{"chart-stage-use": 3, "chart-stage-times": 4, "chart-frame-rate": 2},
    **{"chart-service-times": 1, "chart-queues": 2, "chart-decoded": 1},
}
CHANGES = {"chart-changes-0": 1, "chart-changes-1": 1}
WORKERS = {"chart-throughput": 1, "chart-work": 4}
PAGES = {
    "a run": (render_html(record()), 480, RUN_CHARTS),
    "a comparison": (render_comparison(compare(COMPARED)), 390, CHANGES),
    "a launch": (render_benchmark(launch_page(LAUNCHES["both"])), 390, WORKERS),
    "a benchmark": (render_benchmark(BENCHMARK), 480, {"chart-many": 1}),
}
"""Name → (page, narrow width that it fits, chart → number of traces)."""


@pytest.mark.parametrize("name", PAGES)
def test_every_chart_is_drawn_and_fits_and_the_page_makes_no_request(page, tmp_path, name):
    text, narrow, charts = PAGES[name]
    file = write_page(text, tmp_path)
    for width, scheme in ((1280, "light"), (narrow, "dark")):
        page.show(file, width=width, scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        drawn = page.evaluate(DRAWN)
        assert {chart: traces for chart, _, traces, _ in drawn} == charts
        assert all(drawings and 0 < drawn <= width for _, drawings, _, drawn in drawn)
    assert page.console == []
    assert set(page.requested) == {file.as_uri()}


def test_the_widest_table_of_a_benchmark_fits_a_usual_window(page, tmp_path):
    file = write_page(render_benchmark(SAMPLING.page(test_sampling.recorded(*USUAL))), tmp_path)
    page.show(file, width=1280)
    table = "document.querySelector('#tables .scroll')"
    assert page.evaluate(f"{table}.scrollWidth - {table}.clientWidth") == 0


@pytest.mark.parametrize("busy", [0.09, 0.14, 0.2])
def test_labels_of_the_utilization_chart_do_not_overlap(page, tmp_path, busy):
    session = record()
    [load] = [load for load in stage_loads(session) if load.name == "model"]
    [model] = [stage for stage in session.stages if stage.name == "model"]
    seconds = model.busy_seconds / load.busy
    shares = ((busy, 0.25, 0.52), (busy, 0.38, 0.38), (busy, 0.52, 0.25), (busy, 0.3, 0.3))
    stages = tuple(
        changed(
            stage,
            busy_seconds=worked * seconds,
            starved_seconds=starved * seconds,
            blocked_seconds=blocked * seconds,
        )
        for stage, (worked, starved, blocked) in zip(session.stages, shares, strict=True)
    )
    page.show(write_report(changed(session, stages=stages), tmp_path), width=390)
    labels = page.evaluate(BAR_LABELS)
    assert len(labels) >= 4
    for top, left, right in labels:
        assert not [x for y, x, _ in labels if y == top and left < x < right]


def test_the_page_and_its_charts_follow_the_color_scheme(page, tmp_path):
    file = write_report(record(), tmp_path)
    for width in (1280, 480):
        page.show(file, width=width)
        light = page.brightness()
        text = page.evaluate(TICK_COLOR)
        page.use_scheme("dark")
        dark = page.brightness()
        assert light > 200 > 60 > dark
        size = page.picture().size
        assert (size[0], size[1] > 2000) == (width, True)
        assert page.evaluate(TICK_COLOR) != text, "the charts follow the page"
    assert page.console == []


def test_hostile_names_do_nothing(page, tmp_path):
    file = write_report(hostile(), tmp_path)
    page.show(file, width=480)
    assert page.evaluate("document.scripts.length") == 3
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 480
    assert page.evaluate(DRAWN) != []
    assert page.console == []
    assert page.requested == [file.as_uri()]


def test_the_policy_blocks_other_scripts_and_requests(page, tmp_path):
    """This shows that the checks of the console can fail."""
    file = write_report(record(steps=0), tmp_path)
    tampered = file.read_text(encoding="utf-8").replace(
        "</main>", "</main><script>hurt()</script><img src='https://example.org/x.png'>"
    )
    file.write_text(tampered, encoding="utf-8")
    page.show(file, width=1280)
    assert len(page.console) == 2
    assert all("Content Security Policy" in line for line in page.console)


def test_a_run_of_at_most_one_step_is_drawn_without_console_messages(page, tmp_path):
    for steps, drawings in ((0, 0), (1, 3)):
        session = record(steps=steps, warmup_steps=0, outcome="interrupted")
        page.show(write_report(session, tmp_path), width=1280)
        assert len(page.evaluate(DRAWN)) == drawings
    assert page.console == []


def test_the_annotated_video_is_played_on_the_page(page, tmp_path):
    with VideoFile(tmp_path / "annotated.mp4", Fraction(2)) as video:
        for k in range(4):
            video.write(np.full((96, 128, 3), 60 * k, np.uint8), k / 2)
    file = write_report(record(outputs=("annotated.mp4",)), tmp_path)
    page.show(file, width=390)
    assert page.loaded_video()[:3] == [None, 128, 96]
    assert page.evaluate("document.querySelector('video + p').hidden")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert set(page.requested) == {file.as_uri(), (tmp_path / "annotated.mp4").as_uri()}


def test_a_missing_video_has_a_message(page, tmp_path):
    file = write_report(record(outputs=("annotated.mp4",)), tmp_path)
    page.show(file, width=480)
    assert page.loaded_video()[0]
    assert not page.evaluate("document.querySelector('video + p').hidden")
