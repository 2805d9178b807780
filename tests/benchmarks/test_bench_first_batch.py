"""Tests of benchmarks/bench_first_batch.py: every way delivers the same frames, and is timed."""

from benchmarks import bench_first_batch
from benchmarks.bench_first_batch import BATCHES, NAIVE, WAYS, measured
from benchmarks.record import TimedResult, origin
from benchmarks.tables.first_batch import first_batch
from headrace.testing.synth import SynthClip, write_clip


def test_every_way_is_timed_and_held_against_the_naive_one(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_first_batch, "BATCH_SIZE", 4)
    monkeypatch.setattr(bench_first_batch, "SIZE", (48, 64))
    clips = [write_clip(tmp_path / f"{k}", SynthClip(num_frames=30, gop=6)) for k in range(3)]
    rows = measured("web", clips, repeats=2)
    assert [row.name for row in rows] == list(WAYS)
    for row in rows:
        assert row.failure is None
        assert [each.frames for each in row.repeats] == [4 * BATCHES] * 2
        assert all(0 < each.first_seconds <= each.wall_seconds for each in row.repeats)
    lines = first_batch(TimedResult(provenance=origin({}), rows=tuple(rows))).splitlines()
    assert [line.split(" | ")[1] for line in lines[2:6]] == list(WAYS)
    assert f"| web | {NAIVE} | " in lines[2]
    assert " | 1.00 | " in lines[2]
