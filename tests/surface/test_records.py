"""Snapshots of the layouts of records and results."""

import json
import re
from pathlib import Path

import pytest

from headrace.bench.registry import BENCHMARKS
from headrace.bench.suite.suite_selection import SuiteRecord
from headrace.models.memory_table import MemoryTable
from headrace.profiling.comparison import Comparison
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
def test_layout_of_a_record(holds, name):
    holds(f"records/{name}.txt", _page(RECORDS[name]))


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_layout_of_the_record_of_a_benchmark(holds, benchmark):
    holds(f"records/bench_{benchmark.name}.txt", _page(benchmark.record))


def test_options_of_the_benchmarks(holds):
    lines = list[str]()
    for benchmark in BENCHMARKS:
        lines += [f"# {benchmark.name}", *declared(benchmark.config)]
    holds("records/options_of_experiments.txt", "\n".join(lines) + "\n")


def test_metrics_of_a_live_page(holds):
    text = metrics_text(status()).decode()
    families = [line for line in text.splitlines() if line.startswith("#")]
    samples = {re.sub(r'"[^"]*"', '"…"', line).rpartition(" ")[0] for line in text.splitlines()}
    lines = [*families, *sorted(line for line in samples if not line.startswith("#"))]
    holds("records/metrics.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", sorted(path.stem for path in RESULTS.glob("*.json")))
def test_layout_of_the_result_of_a_benchmark(holds, name):
    """Pages and charts are generated from it."""
    result = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    holds(f"results/{name}.txt", "\n".join(sorted(found(result))) + "\n")


def test_marks_of_optional_nested_and_keyed_values():
    """The items of a list share a line."""
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
