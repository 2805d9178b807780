"""The kit: order of repeats, failures, workers, resumed runs, and another commit."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import media
from benchmarks.bench_before import QUESTIONS, Comparison, Turn, checked_out, render, request, turn
from benchmarks.bench_sequential import sequential
from benchmarks.kit import contest, prove, rounds, task_of, timed_by
from benchmarks.record import Repeat, TimedResult
from benchmarks.worker import SOURCE, WorkerError, ask_worker
from headrace.testing.synth import SynthClip, write_clip

TASK = task_of("cases:every_frame", [Path("a.mp4")], 2, size=(256, 256))
MOVING = np.arange(5, dtype=np.float16)[:, None, None, None] * np.ones((32, 32, 3), np.float16)
TIMED = {"wall_seconds": 2.0, "cpu_seconds": 3.0, "others_cpu_seconds": 1.0, "frames": 5}


class Workers:
    """Fake worker processes, with the order of timed requests."""

    def __init__(self, **special):
        self.special = special
        self.timed: list[str] = []

    def __call__(self, request):
        library = request["library"]
        special = self.special.get(library)
        if isinstance(special, WorkerError):
            raise special
        if "pictures" in request:
            np.savez(request["pictures"], special if isinstance(special, np.ndarray) else MOVING)
            return {"versions": {library: "1.0"}}
        self.timed.append(library)
        return {**TIMED, "frames": special} if isinstance(special, int) else TIMED


def named(*names):
    return {name: {"library": name} for name in names}


def run(names, count, workers):
    entrants = named(*names)
    rows = prove(entrants, TASK, "web", workers)
    *_, rows = rounds(rows, timed_by(entrants, TASK, workers), count)
    return rows


def test_repeats_are_interleaved():
    workers = Workers()
    rows = run(["a", "b"], 3, workers)
    assert workers.timed == ["a", "b"] * 3
    assert [(row.name, row.versions, len(row.repeats)) for row in rows] == [
        ("a", {"a": "1.0"}, 3),
        ("b", {"b": "1.0"}, 3),
    ]
    [repeat, *_] = rows[0].repeats
    figures = (repeat.frames_per_second, repeat.cpu_ms_per_frame, repeat.others_share)
    assert figures == (2.5, 600, 0.25)


def test_wrong_and_failed_entrants_stay_with_their_reason_and_are_not_timed():
    workers = Workers(off=MOVING[[0, 1, 1, 3, 4]], broken=WorkerError("no decoder"), loses=4)
    right, off, broken, loses = run(["right", "off", "broken", "loses"], 2, workers)
    assert workers.timed == ["right", "loses", "right"]
    assert (right.is_sound, len(right.repeats)) == (True, 2)
    assert (off.equality.wrong, off.repeats, off.is_sound) == (1, (), False)
    assert (broken.failure, broken.repeats) == ("no decoder", ())
    assert (loses.failure, loses.repeats) == ("the timed run delivered 4 of 5 frames", ())


def test_without_a_reference_nothing_is_timed():
    with pytest.raises(WorkerError, match="no PyAV"):
        run(["a"], 1, Workers(pyav_loop=WorkerError("no PyAV")))


@pytest.fixture
def random_task(tmp_path, monkeypatch, forked_workers):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    clips = [SynthClip(num_frames=n, size=(64, 96), gop=15, b_frames=2) for n in (40, 25)]
    paths = [write_clip(tmp_path / f"{number}", clip) for number, clip in enumerate(clips)]
    options = {"size": (64, 96), "batch_size": 8, "clip": None, "seconds": 0.01}
    return task_of("cases:random_frames", paths, 1, **options)


def test_real_workers_compare_and_time_random_frames(random_task):
    entrants = {
        "missing": {"library": "no_such_library"},
        "headrace": {"library": "headrace", "memory_budget": "64MiB"},
    }
    missing, ours = prove(entrants, random_task)
    assert missing.failure == (
        "ModuleNotFoundError: No module named 'benchmarks.adapters.no_such_library'"
    )
    assert (ours.equality.frames, ours.equality.max_mean_difference) == (16, 0)
    assert ours.versions["av"]

    take = timed_by(entrants, random_task)
    once, twice = rounds([missing, ours], take, 2)
    assert [len(row.repeats) for row in once] == [0, 1]
    assert [len(row.repeats) for row in twice] == [0, 2]
    for repeat in twice[1].repeats:
        assert repeat.wall_seconds >= 0.01
        assert 8 < repeat.warm_up_frames <= repeat.frames + 8
        assert 0 < repeat.memory_bytes < repeat.peak_rss_bytes
    assert next(rounds(twice, take, 2)) == twice


def test_a_worker_uses_the_given_source_and_cache(tmp_path):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=12, gop=6))
    request = {"case": "cases:scan_files", "cores": 1, "paths": [str(path)]}
    assert ask_worker(request, cache=tmp_path / "cache")["frames"] == 1
    (tmp_path / "headrace").mkdir()
    (tmp_path / "headrace" / "__init__.py").write_text("raise ImportError('another tree')")
    with pytest.raises(WorkerError, match="another tree"):
        ask_worker(request, source=tmp_path)


LIBRARIES = named("pyav_loop", "headrace")
BENCHMARK = contest(
    "none", "How fast?", LIBRARIES, "cases:every_frame", sequential, is_endless=False
)


@pytest.fixture
def root(tmp_path, forked_workers):
    folder = media.folder(tmp_path) / "web"
    folder.mkdir(parents=True)
    write_clip(folder / "000", SynthClip(num_frames=24, size=(64, 96), gop=6, b_frames=2))
    return tmp_path


def test_a_run_is_saved_and_resumed(root):
    out = root / "out.json"

    def compare(*words):
        common = ["--media", str(root), "--count", "1", "--kinds", "web", "--workers", "1"]
        BENCHMARK.main([*common, "--out", str(out), *words])
        return TimedResult.load(out)

    first = compare("--repeats", "1", "--libraries", "headrace")
    assert [(row.name, row.kind, len(row.repeats)) for row in first.rows] == [
        ("headrace", "web", 1)
    ]
    assert first.provenance.configuration["size"] == "256,256"
    assert first.media["kinds"]["web"]["mean_gop"] == 6
    both = compare("--repeats", "1", "--resume")
    assert [row.name for row in both.rows] == ["pyav_loop", "headrace"]
    assert both.rows[1] == first.rows[0]
    assert all(row.is_sound and row.repeats[0].frames == 24 for row in both.rows)
    assert (both.rows[1].repeats[0].decoded, both.rows[1].amplification) == (24, 1)
    with pytest.raises(SystemExit, match=r"other conditions \(configuration\)"):
        compare("--repeats", "2", "--resume")


def test_missing_videos_exit_with_the_command_that_creates_them(tmp_path):
    with pytest.raises(SystemExit, match=r"make them with: python -m benchmarks\.media"):
        BENCHMARK.main(["--media", str(tmp_path)])


def test_the_ratio_is_the_median_of_the_repeats():
    turns = (Turn(before=100, after=110), Turn(before=50, after=100), Turn(before=200, after=180))
    row = Comparison(question="scan", kind="web", turns=turns)
    assert row.ratio == pytest.approx(1.1)
    assert render(row) == "web scan: 1.10 of the rate before (0.90 to 2.00); 100 -> 110 per second"


def test_the_first_tree_alternates(tmp_path):
    measured = []

    def repeat(source):
        measured.append(source)
        seconds = 1.0 if source == SOURCE else 2.0
        return Repeat(
            frames=4, wall_seconds=seconds, cpu_seconds=3.0, others_cpu_seconds=seconds - 1
        )

    turns = [turn(repeat, tmp_path, is_odd=bool(number % 2)) for number in range(2)]
    assert measured == [tmp_path, SOURCE, SOURCE, tmp_path]
    assert {(both.ratio, both.others_share) for both in turns} == {(2.0, 0.25)}


def test_the_other_commit_is_checked_out_and_removed():
    with checked_out("HEAD") as (commit, tree):
        assert (tree / "src" / "headrace" / "__init__.py").is_file()
        assert commit
    assert not tree.exists()


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_worker_answers_every_question(question, tmp_path, forked_workers):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=130, size=(64, 96)))
    if question == "cameras":
        for camera in ("back", "front"):
            for clip in ("one", "two"):
                folder = tmp_path / "videos" / clip
                folder.mkdir(parents=True, exist_ok=True)
                write_clip(folder / camera, SynthClip(num_frames=6))
        path = tmp_path / "index.json"
        path.write_text('{"videos": {"one": 6, "two": 6}}')
    task = request(question, [path], workers=1, seconds=0.01)
    assert Repeat(**ask_worker(task, cache=tmp_path)).frames_per_second > 0
