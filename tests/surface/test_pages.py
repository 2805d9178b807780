"""Snapshots of the page of each kind of record, as text and as HTML, from real runs."""

import json
import re
from pathlib import Path

import pytest

from headrace.bench.registry import BENCHMARKS
from headrace.bench.suite.ranking import rank
from headrace.bench.suite.suite_page import render_suite, render_suite_text, suite_json
from headrace.bench.suite.suite_selection import read_record, read_suite
from headrace.profiling.comparison import compare
from headrace.profiling.metrics import metrics_csv
from headrace.profiling.session import Session
from headrace.report.benchmark_page import render_benchmark, render_benchmark_text
from headrace.report.comparison_page import render_comparison, render_comparison_text
from headrace.report.folder import render_html
from headrace.report.launch_page import launch_page, render_launch_text, workers_csv
from headrace.report.text import render_text
from headrace.runs.launch.launch_record import LaunchRecord

RECORDED = Path(__file__).parent / "recorded"
SESSIONS = sorted(path.parent.name for path in RECORDED.glob("sessions/*/session.json"))
_FIGURES = re.compile(r'(<script type="application/json" id="figures">)(.*?)(</script>)', re.DOTALL)
_SAME_ON_ALL_PAGES = (
    (re.compile(r"<style>.*?</style>", re.DOTALL), "<style>…</style>"),
    (re.compile(r"<script>.*?</script>", re.DOTALL), "<script>…</script>"),
    (re.compile(r"'sha256-[^']*'"), "'sha256-…'"),
)


@pytest.mark.parametrize("name", SESSIONS)
def test_page_of_a_session(holds, name):
    session = Session.load(RECORDED / "sessions" / name / "session.json")
    holds(f"pages/{name}.txt", render_text(session))
    holds(f"pages/{name}.html", _plain(render_html(session)))


@pytest.mark.parametrize("name", SESSIONS)
def test_table_of_a_session(holds, name):
    session = Session.load(RECORDED / "sessions" / name / "session.json")
    holds(f"pages/{name}.metrics.csv", "".join(metrics_csv(session).splitlines(True)[:3]))


def test_page_of_a_comparison(holds):
    paths = {name: RECORDED / "sessions" / name / "session.json" for name in ("run", "other")}
    sessions = {name: Session.load(path) for name, path in paths.items()}
    comparison = compare(sessions, any_input=False)
    holds("pages/comparison.txt", render_comparison_text(comparison))
    holds("pages/comparison.html", _plain(render_comparison(comparison)))


def test_page_of_a_launch(holds):
    text = (RECORDED / "launch" / "launch.json").read_text("utf-8")
    record = LaunchRecord.model_validate_json(text)
    holds("pages/launch.txt", render_launch_text(record))
    holds("pages/launch.html", _plain(render_benchmark(launch_page(record))))
    holds("pages/launch.workers.csv", workers_csv(record))


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_page_of_a_benchmark(holds, benchmark):
    record = read_record(benchmark, RECORDED / "bench")
    page = benchmark.page(record)
    holds(f"pages/bench_{benchmark.name}.csv", "".join(benchmark.csv(record).splitlines(True)[:3]))
    holds(f"pages/bench_{benchmark.name}.txt", render_benchmark_text(page))
    holds(f"pages/bench_{benchmark.name}.html", _plain(render_benchmark(page)))


def test_page_of_all_benchmarks(holds):
    record = read_suite(RECORDED / "bench")
    ranking = rank(BENCHMARKS, record, RECORDED / "bench")
    holds("pages/bench_all.txt", render_suite_text(ranking))
    # Its charts are the same as on the pages of the benchmarks.
    holds("pages/bench_all.html", _plain(render_suite(ranking)).partition("# chart")[0])


def test_json_of_all_benchmarks(holds):
    record = read_suite(RECORDED / "bench")
    ranking = rank(BENCHMARKS, record, RECORDED / "bench")
    printed = json.loads(suite_json(ranking, Path("bench"), {"page": Path("bench/all.html")}))
    holds("pages/bench_all.json", json.dumps(printed, indent=1) + "\n")


def _plain(page: str) -> str:
    """Return a page without the parts that all pages share, and its charts as readable JSON."""
    charts, page = _FIGURES.search(page), _FIGURES.sub(r"\1…\3", page)
    for pattern, placeholder in _SAME_ON_ALL_PAGES:
        page = pattern.sub(placeholder, page)
    return page + "\n".join(_charts(json.loads(charts[2]))) + "\n"


def _charts(figures: dict) -> list[str]:
    """Return a line for each trace and layout of each chart, without the common theme."""
    lines = list[str]()
    for name, figure in figures.items():
        figure["layout"].pop("template", None)
        lines.append(f"# chart {name}")
        lines += [json.dumps(trace, sort_keys=True) for trace in figure["data"]]
        lines.append(json.dumps(figure["layout"], sort_keys=True))
    return lines
