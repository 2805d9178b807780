"""Benchmarks of runs and profiled loops: cost, times, comparisons, predictions."""

import pytest

from benchmarks import bench_compare, bench_observe, bench_overhead, bench_predictions, bench_times
from benchmarks.bench_compare import Pair, Pairs
from benchmarks.bench_times import TimesRow
from benchmarks.worker import answer_here
from headrace.testing.synth import SynthClip, write_clip


def test_plain_and_profiled_loops_and_scripts_are_timed():
    (result,) = bench_observe.measure(steps=3, step_ms=0.5, repeats=1)
    kinds = ("num_workers=0", "num_workers=1", bench_observe.SCRIPT)
    assert [(row.name, row.kind, row.count) for row in result.rows] == [
        (name, kind, 1) for kind in kinds for name in ("plain", "observed")
    ]
    lines = bench_observe.text(result).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:4]] == [f"| {kind}" for kind in kinds[:2]]
    assert lines[5].startswith("Under `headrace profile`, a script starts ")


def test_equal_and_slower_runs_are_compared_in_pairs_and_triples():
    *_, result = bench_compare.measure(pairs=1, planted=1, steps=5, step_ms=0.5)
    kinds = [(row.machine, row.runs, row.is_slower, len(row.pairs)) for row in result.rows]
    assert kinds == [
        (machine, runs, is_slower, 1)
        for machine, is_slower in (("quiet", False), ("busy", False), ("quiet", True))
        for runs in (1, 3)
    ]
    assert "| busy | 3 | no difference | 1 |" in bench_compare.text(result)


def test_differences_of_the_throughput_and_of_any_figure_are_counted():
    verdicts = ("better", "worse", "no difference shown", "inconclusive")
    pairs = [Pair(change=0.1, verdict=verdict) for verdict in verdicts]
    pairs.append(Pair(change=0.0, verdict="no difference shown", others=("CPU time",)))
    row = Pairs(machine="quiet", runs=1, pairs=tuple(pairs))
    assert (row.shown, row.figures, row.withheld) == (2, 3, 1)


def test_loops_have_recorded_and_read_times():
    *_, result = bench_times.measure(batches=3)
    assert [row.name for row in result.rows] == list(bench_times.LOOPS)
    assert all(row.recorded[0] > 0 and row.read[0] > 0 for row in result.rows)


def test_short_times_are_not_compared():
    row = TimesRow(name="loop", recorded=(1.1, 0.5, 0.02), read=(1.0, 0.5, 0.01))
    assert row.errors == pytest.approx([0.1, 0.0])


def test_a_small_run_is_timed_saved_and_loaded(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench_overhead, "ask_worker", answer_here)
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=24))
    out = tmp_path / "overhead.json"
    words = ["--turns", "1", "--steps", "4", "--batch-size", "2", "--video", clip, "--out", out]
    bench_overhead.BENCHMARK.main([str(word) for word in words])
    rows = bench_overhead.OverheadResult.load(out).rows
    assert [row.name for row in rows] == list(bench_overhead.VARIANTS)
    assert {row.count for row in rows} == {1}
    assert all(seconds > 0 for row in rows for seconds in row.values("wall_seconds"))
    assert all(seconds >= 0 for row in rows for seconds in row.values("cpu_seconds"))
    assert "bare: " in capsys.readouterr().out


def test_each_loader_is_predicted_and_timed(tmp_path, monkeypatch):
    files = [write_clip(tmp_path / f"{n}", SynthClip(num_frames=48)) for n in range(3)]
    monkeypatch.setattr(bench_predictions, "paths", lambda *_: files)
    plain, packed = bench_predictions.time_loaders(
        tmp_path, kinds=("web",), memories=("128MiB",), seconds=0.01, ask=answer_here
    )
    assert (plain.strategy, packed.strategy) == ("look-ahead", "packed")
    for loader in (plain, packed):
        assert (loader.kind, loader.memory) == ("web", "128MiB")
        assert loader.came.frames > 0
