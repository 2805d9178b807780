"""Benchmarks of profiled loops: their cost, their times, comparisons of their runs."""

import pytest

from benchmarks import bench_compare, bench_observe, bench_times
from benchmarks.bench_compare import Pair, Pairs
from benchmarks.bench_times import TimesRow


def test_observing_is_timed_beside_the_plain_loop_and_the_plain_script() -> None:
    (result,) = bench_observe.measure(steps=3, step_ms=0.5, repeats=1)
    kinds = ("num_workers=0", "num_workers=1", bench_observe.SCRIPT)
    assert [(row.name, row.kind, row.count) for row in result.rows] == [
        (name, kind, 1) for kind in kinds for name in ("plain", "observed")
    ]
    lines = bench_observe.text(result).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:4]] == [f"| {kind}" for kind in kinds[:2]]
    assert lines[5].startswith("Under `headrace profile`, a script starts ")


def test_equal_and_slower_runs_are_compared_alone_and_by_threes() -> None:
    *_, result = bench_compare.measure(pairs=1, planted=1, steps=5, step_ms=0.5)
    found = [(row.machine, row.runs, row.is_slower, len(row.pairs)) for row in result.rows]
    assert found == [
        (machine, runs, is_slower, 1)
        for machine, is_slower in (("quiet", False), ("busy", False), ("quiet", True))
        for runs in (1, 3)
    ]
    assert "| busy | 3 | no difference | 1 |" in bench_compare.text(result)


def test_alarms_of_the_throughput_and_of_any_figure_are_counted() -> None:
    verdicts = ("better", "worse", "no difference shown", "inconclusive")
    pairs = [Pair(change=0.1, verdict=verdict) for verdict in verdicts]
    pairs.append(Pair(change=0.0, verdict="no difference shown", others=("CPU time",)))
    row = Pairs(machine="quiet", runs=1, pairs=tuple(pairs))
    assert (row.shown, row.figures, row.withheld) == (2, 3, 1)


def test_recorded_times_stand_beside_those_that_were_read() -> None:
    *_, result = bench_times.measure(batches=3)
    assert [row.name for row in result.rows] == list(bench_times.LOOPS)
    assert all(row.recorded[0] > 0 and row.read[0] > 0 for row in result.rows)


def test_a_short_wait_is_no_error() -> None:
    row = TimesRow(name="loop", recorded=(1.1, 0.5, 0.02), read=(1.0, 0.5, 0.01))
    assert row.errors == pytest.approx([0.1, 0.0])
