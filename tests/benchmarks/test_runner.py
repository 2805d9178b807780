"""Tests of benchmarks/runner.py: who is timed, in which order, and what becomes of failures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.record import Row
from benchmarks.runner import Entrant, Task, WorkerError, ask_worker, prove, rounds
from headrace.testing.synth import SynthClip, write_clip

TASK = Task(question="every_frame", kind="web", paths=[Path("a.mp4")], size=(64, 64), workers=2)
MOVING = np.arange(5, dtype=np.float16)[:, None, None, None] * np.ones((32, 32, 3), np.float16)
TIMED = {
    "wall_seconds": 2.0,
    "first_seconds": 0.1,
    "cpu_seconds": 3.0,
    "others_cpu_seconds": 1.0,
    "frames": 5,
    "peak_rss_bytes": 1 << 20,
}


class Workers:
    """Answers as worker processes would, and keeps the order in which they were asked."""

    def __init__(self, **special: Any) -> None:
        self.special = special
        self.timed: list[str] = []

    def __call__(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        library = asked["library"]
        special = self.special.get(library)
        if isinstance(special, WorkerError):
            raise special
        if asked["pictures"]:
            np.savez(asked["pictures"], special if isinstance(special, np.ndarray) else MOVING)
            return {"versions": {library: "1.0"}}
        self.timed.append(library)
        return {**TIMED, "frames": special} if isinstance(special, int) else TIMED


def run(names: list[str], count: int, workers: Workers) -> list[Row]:
    entrants = [Entrant(name=name, asked={"library": name}) for name in names]
    rows = prove(entrants, TASK, workers)
    *_, rows = rounds(rows, entrants, TASK, count, workers)
    return rows


def test_repeats_are_interleaved() -> None:
    workers = Workers()
    rows = run(["a", "b"], 3, workers)
    assert workers.timed == ["a", "b"] * 3
    assert [(row.name, row.versions, len(row.repeats)) for row in rows] == [
        ("a", {"a": "1.0"}, 3),
        ("b", {"b": "1.0"}, 3),
    ]
    assert rows[0].repeats[0].frames_per_second == 2.5
    assert rows[0].repeats[0].cpu_ms_per_frame == 600
    assert rows[0].repeats[0].others_share == 0.25


def test_a_library_with_wrong_frames_is_shown_and_not_timed() -> None:
    workers = Workers(off=MOVING[[0, 1, 1, 3, 4]])
    right, off = run(["right", "off"], 2, workers)
    assert workers.timed == ["right", "right"]
    assert right.is_sound
    assert off.equality is not None
    assert (off.equality.wrong, off.repeats, off.is_sound) == (1, (), False)


def test_a_library_that_fails_is_shown_with_its_reason() -> None:
    workers = Workers(broken=WorkerError("no decoder"))
    broken, right = run(["broken", "right"], 2, workers)
    assert (broken.failure, broken.repeats) == ("no decoder", ())
    assert len(right.repeats) == 2


def test_losing_frames_while_timed_is_a_failure() -> None:
    [row] = run(["loses"], 2, Workers(loses=4))
    assert (row.failure, row.repeats) == ("4 of 5 frames when timed", ())


def test_without_a_reference_nothing_is_timed() -> None:
    with pytest.raises(WorkerError, match="no PyAV"):
        run(["a"], 1, Workers(pyav_loop=WorkerError("no PyAV")))


@pytest.fixture
def random_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    clips = [SynthClip(num_frames=n, size=(64, 96), gop=15, b_frames=2) for n in (40, 25)]
    return Task(
        question="random_frames",
        kind="web",
        paths=[write_clip(tmp_path / f"{number}", clip) for number, clip in enumerate(clips)],
        size=(64, 96),
        workers=1,
        asked={"batch_size": 8, "clip": None, "seconds": 0.01},
    )


def test_real_workers_prove_and_time_random_frames(random_task: Task) -> None:
    entrants = [
        Entrant(name="missing", asked={"way": "no_such_way"}),
        Entrant(name="headrace", asked={"way": "headrace", "memory_budget": "64MiB"}),
    ]
    missing, ours = prove(entrants, random_task)
    assert missing.failure == (
        "ModuleNotFoundError: No module named 'benchmarks.random_access.no_such_way'"
    )
    assert ours.equality is not None
    assert (ours.equality.frames, ours.equality.max_mean_difference) == (16, 0)
    assert ours.versions["av"]

    once, twice = rounds([missing, ours], entrants, random_task, 2)
    assert [len(row.repeats) for row in once] == [0, 1]
    assert [len(row.repeats) for row in twice] == [0, 2]
    for repeat in twice[1].repeats:
        assert repeat.frames > 0
        assert repeat.wall_seconds >= 0.01
        assert repeat.warm_up_frames is not None
        assert repeat.warm_up_frames > 8
        assert repeat.frames >= repeat.warm_up_frames - 8
        assert repeat.peak_rss_bytes is not None
        assert repeat.memory_bytes is not None
        assert 0 < repeat.memory_bytes < repeat.peak_rss_bytes
    assert next(rounds(twice, entrants, random_task, 2)) == twice


def test_real_workers_prove_and_time_every_frame(random_task: Task) -> None:
    task = Task(
        question="every_frame",
        kind="web",
        paths=random_task.paths,
        size=random_task.size,
        workers=1,
    )
    entrants = [Entrant(name="ours", asked={"library": "headrace"})]
    [[ours]] = rounds(prove(entrants, task), entrants, task, 1)
    assert ours.is_sound
    assert [(each.frames, each.decoded) for each in ours.repeats] == [(65, 65)]
    assert ours.amplification == 1


def test_a_worker_knows_only_the_headrace_and_the_indexes_it_is_given(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=12, gop=6))
    asked = {"question": "scan_files", "cores": 1, "paths": [str(path)]}
    assert ask_worker(asked, cache=tmp_path / "cache")["frames"] == 1
    (tmp_path / "headrace").mkdir()
    (tmp_path / "headrace" / "__init__.py").write_text("raise ImportError('another tree')")
    with pytest.raises(WorkerError, match="another tree"):
        ask_worker(asked, source=tmp_path)
