"""`make bench` asks every question that can be asked of this tree alone."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WANTS_ANOTHER_COMMIT = "bench_before"


def test_every_benchmark_is_run_once():
    text = (ROOT / "Makefile").read_text("utf-8")
    run = re.findall(r"-m benchmarks\.(bench_\w+)$", text, re.MULTILINE)
    there = {path.stem for path in (ROOT / "benchmarks").glob("bench_*.py")}
    assert sorted(run) == sorted(there - {WANTS_ANOTHER_COMMIT})
