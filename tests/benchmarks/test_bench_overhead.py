"""bench_overhead, bench_observe and bench_predictions."""

from benchmarks import bench_overhead, bench_predictions
from benchmarks.bench_overhead import BENCHMARK, WAYS, OverheadResult
from benchmarks.bench_predictions import Prediction, loaded
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


def test_a_prediction_is_held_against_the_median():
    found = Prediction(change="--no-video", predicted=2.2, measured=(1.9, 2.0, 2.6))
    assert str(found) == "--no-video: predicted 2.20 times, measured 2.00 (1.90 to 2.60)"


def test_what_was_not_predicted_is_said():
    found = Prediction(change="--threads 1", predicted=None, measured=(0.9,))
    assert str(found) == "--threads 1: predicted nothing, measured 0.90 (0.90 to 0.90)"


def test_each_loader_is_planned_and_runs(tmp_path, monkeypatch, capsys):
    files = [write_clip(tmp_path / f"{n}", SynthClip(num_frames=48)) for n in range(3)]
    monkeypatch.setattr(bench_predictions, "paths", lambda *given: files)
    found = loaded(tmp_path, kinds=("web",), memories=("128MiB",), seconds=0.01, ask=answer_here)
    plain, packed = found
    assert (plain.strategy, packed.strategy) == ("look-ahead", "packed")
    for each in (plain, packed):
        assert each.came.frames > 0
        assert str(each).startswith(f"web, 128MiB, {each.strategy}: predicted ")
