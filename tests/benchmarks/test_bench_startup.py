"""bench_startup and bench_first_batch: every way is proved and timed."""

from benchmarks import bench_first_batch
from benchmarks.bench_first_batch import BATCHES, NAIVE, WAYS, first_batch, measured
from benchmarks.bench_startup import timed_opening
from benchmarks.record import TimedResult, origin
from benchmarks.worker import WorkerError
from headrace.testing.synth import SynthClip, write_clip


def test_each_file_is_opened_new_and_known(tmp_path):
    clips = [write_clip(tmp_path / f"{k}", SynthClip(num_frames=12, gop=6)) for k in range(2)]
    rows = timed_opening(clips)
    assert [row.name for row in rows] == ["open a new file (scan)", "open a known file"]
    assert [len(row.repeats) for row in rows] == [2, 2]


def test_both_are_asked_with_the_same_store_and_a_failure_is_kept():
    stores = []

    def ask(asked):
        stores.append(asked["store"])
        if len(stores) == 2:
            raise WorkerError("no such file")
        return {"seconds": [0.5]}

    new, known = timed_opening([], ask)
    assert stores[0] == stores[1]
    assert new.repeats[0].wall_seconds == 0.5
    assert known.failure == "no such file"


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
