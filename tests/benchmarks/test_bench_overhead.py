"""bench_overhead, bench_observe and bench_predictions."""

from benchmarks import bench_overhead, bench_predictions
from benchmarks.bench_overhead import BENCHMARK, WAYS, OverheadResult
from benchmarks.bench_predictions import time_loaders
from benchmarks.worker import answer_here
from headrace.testing.synth import SynthClip, write_clip


def test_the_smallest_measurement_is_kept_and_can_be_read(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench_overhead, "ask_worker", answer_here)
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=24))
    out = tmp_path / "overhead.json"
    words = ["--turns", "1", "--steps", "4", "--batch-size", "2", "--video", clip, "--out", out]
    BENCHMARK.main([str(word) for word in words])
    found = OverheadResult.load(out)
    assert [row.name for row in found.rows] == list(WAYS)
    assert {row.count for row in found.rows} == {1}
    assert all(each > 0 for row in found.rows for each in row.values("wall_seconds"))
    assert all(each >= 0 for row in found.rows for each in row.values("cpu_seconds"))
    assert "bare: " in capsys.readouterr().out


def test_each_loader_is_planned_and_runs(tmp_path, monkeypatch):
    files = [write_clip(tmp_path / f"{n}", SynthClip(num_frames=48)) for n in range(3)]
    monkeypatch.setattr(bench_predictions, "paths", lambda *given: files)
    found = time_loaders(
        tmp_path, kinds=("web",), memories=("128MiB",), seconds=0.01, ask=answer_here
    )
    plain, packed = found
    assert (plain.strategy, packed.strategy) == ("look-ahead", "packed")
    for each in (plain, packed):
        assert (each.kind, each.memory) == ("web", "128MiB")
        assert each.came.frames > 0
