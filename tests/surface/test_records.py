"""The layout of records: sessions, experiments, launches, comparisons, live pages, benchmarks."""

import json
import re
from pathlib import Path

import pytest

from headrace.bench.registry import BENCHMARKS
from headrace.bench.suite.suite_record import SuiteRecord
from headrace.models.memory_table import MemoryTable
from headrace.profiling.comparison.comparison import Comparison
from headrace.profiling.session import Session
from headrace.runs.launch.launch_record import LaunchRecord
from headrace.sinks.web.prometheus import metrics_text
from headrace.sinks.web.status import Health, LiveStatus
from sinks.web.faked_run import status
from surface.shapes import declared, found

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
RECORDS = {
    "session": Session,
    "comparison": Comparison,
    "launch": LaunchRecord,
    "suite": SuiteRecord,
    "memory_table": MemoryTable,
    "live_status": LiveStatus,
    "health": Health,
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_laid_out_like_this(holds, name):
    holds(f"records/{name}.txt", _page(RECORDS[name]))


@pytest.mark.parametrize("experiment", BENCHMARKS, ids=lambda each: each.name)
def test_the_record_of_a_benchmark_is_laid_out_like_this(holds, experiment):
    holds(f"records/bench_{experiment.name}.txt", _page(experiment.record))


def test_the_experiments_and_their_options_are_these(holds):
    lines = list[str]()
    for experiment in BENCHMARKS:
        lines += [f"# {experiment.name}", *declared(experiment.config)]
    holds("records/options_of_experiments.txt", "\n".join(lines) + "\n")


def test_the_metrics_of_a_live_page_are_these(holds):
    text = metrics_text(status()).decode()
    families = [line for line in text.splitlines() if line.startswith("#")]
    samples = {re.sub(r'"[^"]*"', '"…"', line).rpartition(" ")[0] for line in text.splitlines()}
    lines = [*families, *sorted(each for each in samples if not each.startswith("#"))]
    holds("records/metrics.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", sorted(path.stem for path in RESULTS.glob("*.json")))
def test_the_result_of_a_benchmark_is_laid_out_like_this(holds, name):
    """Pages and charts are drawn again from it."""
    result = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    holds(f"results/{name}.txt", "\n".join(sorted(found(result))) + "\n")


def test_types_read_the_same_however_they_are_written():
    """Optional, nested and keyed parts have their marks, and a found layout merges its items."""
    assert "provenance.machine.gpus[].name: str" in list(declared(Session))
    assert "usage?.cpu_seconds: float" in list(declared(Session))
    value = {"a": [{"b": 1}, {"b": None}], "files": {"x.mp4": 0.5, "y.mp4": 1}, "none": []}
    assert found(value, {"files"}) == [
        "a[].b: int | null",
        "files{}: float | int",
        "none: []",
    ]


def _page(kind):
    return "\n".join(sorted(declared(kind))) + "\n"
