"""The page of a benchmark: complete, and safe against hostile text."""

from dataclasses import replace
from datetime import UTC, datetime

import plotly.graph_objects as go
import pytest

from headrace.profiling.findings.finding import Finding
from headrace.profiling.provenance import Gpu, Provenance
from headrace.report import benchmark_page
from headrace.report.page import PLAIN, Chart, bar, draw
from report.recorded import MACHINE

HOSTILE = "</script><script>alert(1)</script>\x1b[31m"
PROVENANCE = Provenance(
    headrace="0.1.0",
    created=datetime(2026, 11, 1, 12, tzinfo=UTC),
    command=("headrace", "bench", "something", "a b.mp4"),
    configuration={"batch_size": 4, "quick": True},
    machine=MACHINE,
    versions={"torch": "2.15.0"},
)
BENCHMARK = benchmark_page.BenchmarkPage(
    name="bench something",
    title="How many?",
    findings=(Finding(headline="Seven", evidence=("It is 7 %.",), change="Eight"),),
    charts=(
        Chart(
            name="many",
            title="Many",
            reading="Higher is more.",
            figure=draw([bar(x=["a"], y=[7], color=PLAIN)], height=200),
        ),
    ),
    table=benchmark_page.Table(
        reading="Counted.", headers=("kind", "number"), rows=(("a", "7"), ("bcd", "1,000"))
    ),
    provenance=PROVENANCE,
)


def test_the_text_aligns_its_columns(holds):
    holds("benchmark.txt", benchmark_page.render_benchmark_text(BENCHMARK))


def test_control_characters_do_not_reach_the_terminal():
    assert "\x1b" not in benchmark_page.render_benchmark_text(replace(BENCHMARK, title=HOSTILE))


@pytest.mark.parametrize("where", ["title", "name", "command"])
def test_hostile_text_is_escaped(where):
    provenance = PROVENANCE.model_copy(update={"command": (HOSTILE,)})
    hostile = {"provenance": provenance} if where == "command" else {where: HOSTILE}
    page = benchmark_page.render_benchmark(replace(BENCHMARK, **hostile))
    assert "<script>alert(1)</script>" not in page


def test_a_figure_has_a_transparent_background():
    figure = draw([go.Scatter(x=[1], y=[1])], height=123, bargap=0.5)
    assert (figure.layout.height, figure.layout.bargap) == (123, 0.5)
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"


def test_the_machine_is_one_line():
    assert benchmark_page.machine_line(MACHINE) == (
        "Machine: CPU Example CPU 8-Core, 8 of 16 cores usable; RAM 32.0 GiB; GPU none"
    )
    card = Gpu(name="Example GPU", memory_bytes=48 * 2**30)
    line = benchmark_page.machine_line(MACHINE.model_copy(update={"gpus": (card,)}))
    assert line.endswith("; GPU Example GPU (48.0 GiB)")


def test_a_benchmark_without_charts_has_no_section_for_them():
    assert 'id="charts"' in benchmark_page.render_benchmark(BENCHMARK)
    assert 'id="charts"' not in benchmark_page.render_benchmark(replace(BENCHMARK, charts=()))
