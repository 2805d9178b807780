"""Tests of benchmarks/bench_startup.py: files are opened as new ones, then as known ones."""

from benchmarks.bench_startup import time_opening
from benchmarks.runner import WorkerError
from headrace.testing.synth import SynthClip, write_clip


def test_each_file_is_opened_new_and_known(tmp_path):
    clips = [write_clip(tmp_path / f"{k}", SynthClip(num_frames=12, gop=6)) for k in range(2)]
    rows = time_opening(clips)
    assert [row.name for row in rows] == ["open a new file (scan)", "open a known file"]
    assert [len(row.repeats) for row in rows] == [2, 2]


def test_both_are_asked_with_the_same_store_and_a_failure_is_kept():
    stores = []

    def ask(asked):
        stores.append(asked["store"])
        if len(stores) == 2:
            raise WorkerError("no such file")
        return {"seconds": [0.5]}

    new, known = time_opening([], ask)
    assert stores[0] == stores[1]
    assert new.repeats[0].wall_seconds == 0.5
    assert known.failure == "no such file"
