"""The page of each kind of record, as text and as HTML, from records of real runs."""

import json
import re
from pathlib import Path

import pytest

from headrace.bench.registry import BENCHMARKS
from headrace.bench.suite.ranking import rank
from headrace.bench.suite.suite_page import render_suite, render_suite_text, suite_json
from headrace.bench.suite.suite_record import read_record, read_suite
from headrace.profiling.comparison.comparison import compare
from headrace.profiling.metrics_csv import metrics_csv
from headrace.profiling.session import Session
from headrace.report.benchmark_page import render_benchmark, render_benchmark_text
from headrace.report.comparison_page import render_comparison, render_comparison_text
from headrace.report.html import render_html
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
def test_a_session_shows_this(holds, name):
    session = Session.load(RECORDED / "sessions" / name / "session.json")
    holds(f"pages/{name}.txt", render_text(session))
    holds(f"pages/{name}.html", _plain(render_html(session)))


@pytest.mark.parametrize("name", SESSIONS)
def test_the_table_of_a_session_is_this(holds, name):
    session = Session.load(RECORDED / "sessions" / name / "session.json")
    holds(f"pages/{name}.metrics.csv", "".join(metrics_csv(session).splitlines(True)[:3]))


def test_a_comparison_shows_this(holds):
    paths = {name: RECORDED / "sessions" / name / "session.json" for name in ("run", "other")}
    found = compare({name: Session.load(path) for name, path in paths.items()}, any_input=False)
    holds("pages/comparison.txt", render_comparison_text(found))
    holds("pages/comparison.html", _plain(render_comparison(found)))


def test_a_launch_shows_this(holds):
    text = (RECORDED / "launch" / "launch.json").read_text("utf-8")
    record = LaunchRecord.model_validate_json(text)
    holds("pages/launch.txt", render_launch_text(record))
    holds("pages/launch.html", _plain(render_benchmark(launch_page(record))))
    holds("pages/launch.workers.csv", workers_csv(record))


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda each: each.name)
def test_a_benchmark_shows_this(holds, benchmark):
    record = read_record(benchmark, RECORDED / "bench")
    page = benchmark.page(record)
    holds(f"pages/bench_{benchmark.name}.csv", "".join(benchmark.csv(record).splitlines(True)[:3]))
    holds(f"pages/bench_{benchmark.name}.txt", render_benchmark_text(page))
    holds(f"pages/bench_{benchmark.name}.html", _plain(render_benchmark(page)))


def test_all_benchmarks_together_show_this(holds):
    record = read_suite(RECORDED / "bench")
    ranking = rank(BENCHMARKS, record, RECORDED / "bench")
    holds("pages/bench_all.txt", render_suite_text(ranking))
    # Its charts are those of the benchmarks, which have pages of their own.
    holds("pages/bench_all.html", _plain(render_suite(ranking)).partition("# chart")[0])


def test_all_benchmarks_together_print_this_as_json(holds):
    record = read_suite(RECORDED / "bench")
    ranking = rank(BENCHMARKS, record, RECORDED / "bench")
    printed = json.loads(suite_json(ranking, Path("bench"), {"page": Path("bench/all.html")}))
    holds("pages/bench_all.json", json.dumps(printed, indent=1) + "\n")


def _plain(page: str) -> str:
    """A page without what is the same on all of them; its charts as JSON that can be read."""
    charts, page = _FIGURES.search(page), _FIGURES.sub(r"\1…\3", page)
    for pattern, left in _SAME_ON_ALL_PAGES:
        page = pattern.sub(left, page)
    return page + "\n".join(_charts(json.loads(charts[2]))) + "\n"


def _charts(figures: dict) -> list[str]:
    """A line for each trace and layout of each chart, without the theme that all of them have."""
    lines = list[str]()
    for name, figure in figures.items():
        figure["layout"].pop("template", None)
        lines.append(f"# chart {name}")
        lines += [json.dumps(trace, sort_keys=True) for trace in figure["data"]]
        lines.append(json.dumps(figure["layout"], sort_keys=True))
    return lines
