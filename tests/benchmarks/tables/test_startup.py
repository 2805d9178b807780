"""Tests of benchmarks/tables/startup.py."""

from benchmark_fakes import result
from benchmarks.record import Repeat, Row
from benchmarks.tables.startup import startup


def test_times_are_medians_in_milliseconds_and_a_failure_is_said() -> None:
    repeats = tuple(Repeat(wall_seconds=seconds) for seconds in (0.010, 0.030, 0.020))
    rows = (
        Row(name="import headrace", repeats=repeats),
        Row(name="headrace --help", failure="exit status 1"),
    )
    assert startup(result(*rows)).splitlines()[2:4] == [
        "| `import headrace` | 20.0 (10.0–30.0) ms |",
        "| `headrace --help` | exit status 1 |",
    ]
