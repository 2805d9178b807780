"""Tests of benchmarks/random_runner.py with real worker processes on two small clips."""

from pathlib import Path

import pytest
from benchmarks.random_runner import Entrant, RandomTask, prove, rounds

from headrace.testing.synth import SynthClip, write_clip

ENTRANTS = [
    Entrant(name="missing", way="no_such_way"),
    Entrant(name="headrace", way="headrace", memory_budget="64MiB"),
]


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RandomTask:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    clips = [SynthClip(num_frames=n, size=(64, 96), gop=15, b_frames=2) for n in (40, 25)]
    return RandomTask(
        kind="web",
        paths=[write_clip(tmp_path / f"{number}", clip) for number, clip in enumerate(clips)],
        size=(64, 96),
        workers=1,
        batch_size=8,
        clip=None,
        seconds=0.01,
    )


def test_what_fails_is_shown_and_what_is_right_is_timed(task: RandomTask) -> None:
    missing, ours = prove(ENTRANTS, task)
    assert missing.failure == (
        "ModuleNotFoundError: No module named 'benchmarks.random_access.no_such_way'"
    )
    assert ours.equality is not None
    assert (ours.equality.frames, ours.equality.max_mean_difference) == (16, 0)
    assert ours.versions["av"]

    once, twice = rounds([missing, ours], ENTRANTS, task, 2)
    assert [len(row.repeats) for row in once] == [0, 1]
    assert [len(row.repeats) for row in twice] == [0, 2]
    for repeat in twice[1].repeats:
        assert repeat.frames > 0
        assert repeat.wall_seconds >= task.seconds
        assert repeat.warm_up_frames > task.batch_size
        assert repeat.frames >= repeat.warm_up_frames - task.batch_size
        assert repeat.peak_rss_bytes is not None
        assert 0 < repeat.memory_bytes < repeat.peak_rss_bytes
    assert next(rounds(twice, ENTRANTS, task, 2)) == twice
