"""Tests of benchmarks/bench_plan.py and bench_extract_memory.py."""

import sys

from benchmarks.bench_extract_memory import watched
from benchmarks.bench_plan import planned
from benchmarks.questions.plan_extraction import answer
from benchmarks.runner import WorkerError
from headrace.testing.synth import SynthClip, write_clip


def test_so_many_hours_are_planned_new_and_known(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=30))

    def ask(asked):
        assert asked.pop("question") == "plan_extraction"
        assert asked.pop("cores") == 1
        return answer(**asked)

    row = planned(clip, 160 / 3600, 1, ask)
    assert (row.videos, row.chunks) == (2, 2)
    assert row.new.frames == row.known.frames == 60


def test_a_plan_that_fails_is_kept_as_failed(tmp_path):
    def ask(asked):
        raise WorkerError("no memory")

    assert planned(tmp_path / "clip.mp4", 1.0, 1, ask).failure == "no memory"


def test_a_command_is_watched_until_it_ends():
    code = "b = [str(n) for n in range(10**6)]"
    samples = watched([sys.executable, "-c", code])
    assert max(each.num_bytes for each in samples) > 1 << 20
    assert {each.processes for each in samples} == {1}
