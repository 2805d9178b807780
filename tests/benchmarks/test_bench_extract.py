"""bench_extract, its memory and bench_plan: the same pictures, then times, memory, plans."""

import os
import sys
from fractions import Fraction

import numpy as np
import pytest

from benchmark_fakes import result, row
from benchmarks import bench_extract_memory, bench_plan
from benchmarks.bench_extract import (
    CASES,
    Case,
    answer,
    at_rate,
    contest,
    extracting,
    kind,
    wanted,
    ways,
)
from benchmarks.bench_extract_memory import MemoryResult, Sample, flat, watched
from benchmarks.bench_plan import PlanResult, PlanRow, planned
from benchmarks.bench_remote import RemoteResult, RemoteRow, Turn, remote
from benchmarks.media import one_keyframe
from benchmarks.record import Repeat, Row
from benchmarks.worker import WorkerError, answer_here
from headrace.testing.synth import SynthClip, write_clip


@pytest.fixture
def clip(tmp_path):
    return write_clip(tmp_path / "clip", SynthClip(num_frames=75, gop=25, b_frames=2))


@pytest.mark.parametrize(("frames", "expected"), [("fps", [0, 30, 60]), ("keyframes", [0, 25, 50])])
def test_ffmpeg_makes_the_pictures_that_headrace_makes(clip, tmp_path, frames, expected):
    assert wanted(clip, frames, 1) == expected
    asked = {"paths": [str(clip)], "frames": frames, "rate": 1, "picture": "png"}
    found = {}
    for way in ("headrace", "ffmpeg", "ffmpeg_predicted"):
        place = tmp_path / f"{way}.npz"
        answer(way=way, size=(256, 256), workers=1, pictures=str(place), **asked)
        with np.load(place) as stored:
            assert stored["requests"].tolist() == [[0, n] for n in expected]
            found[way] = stored["pictures"]
    assert np.array_equal(found["headrace"], found["ffmpeg"])
    assert np.array_equal(found["headrace"], found["ffmpeg_predicted"])


def test_a_timed_command_tells_what_came(clip):
    timed = answer(
        way="ffmpeg",
        paths=[str(clip)],
        frames="fps",
        rate=1,
        picture="jpg",
        size=(256, 256),
        workers=1,
        pictures=None,
    )
    assert timed["frames"] == 3
    assert timed["written_bytes"] > 0


def test_a_frame_is_wanted_that_is_shown_at_the_moment():
    assert at_rate([Fraction(n, 4) for n in range(9)], 1) == [0, 4, 8]
    assert at_rate([Fraction(0), Fraction(2, 5), Fraction(6, 5)], 1) == [0, 1]


def test_a_clip_with_one_keyframe_keeps_its_frames(clip):
    made = one_keyframe(clip)
    assert wanted(made, "keyframes", 1) == [0]
    assert len(wanted(made, "fps", 1)) == 3
    assert one_keyframe(clip).stat().st_mtime_ns == made.stat().st_mtime_ns


def test_a_process_for_each_video_takes_part_where_there_are_several_of_both():
    many, single = (Case(name="a", kind="web", videos=n) for n in (4, 1))
    assert "ffmpeg_at_once" in ways(many, 2)
    assert "ffmpeg_at_once" not in [*ways(many, 1), *ways(single, 2)]


def test_equal_pictures_are_proved_once_and_timed_on_one_core_and_on_all(clip, monkeypatch):
    monkeypatch.setattr(Case, "paths", lambda case, root: [clip])
    told = []

    def ask(asked):
        if asked["case"] == "cases:every_frame" or "pictures" in asked:
            still = np.zeros((75, 32, 32, 3), np.float16)
            given = {"a": still}
            if asked["case"] != "cases:every_frame":
                told.append((asked["way"], asked["picture"]))
                given = {"requests": np.array([[0, 0]]), "pictures": still[:1]}
            np.savez(asked["pictures"], **given)
            return {"versions": {}}
        return {"wall_seconds": 2.0, "frames": 4, "written_bytes": 8}

    [case] = [each for each in CASES if each.kind == "cam"]
    found = contest(result(), case, None, 2, 3, ask)
    assert told == [("headrace", "png"), ("ffmpeg", "png")]
    assert [(row.name, row.kind) for row in found.rows] == [
        (way, kind(case, cores)) for way in ("headrace", "ffmpeg") for cores in (1, 2)
    ]
    assert all(len(row.repeats) == 3 and row.speed == 2.0 for row in found.rows)


MIB = 2**20


def _row(way, seconds, size):
    about = {"frames": 80, "written_bytes": 80 * size, "cpu_seconds": 4.0}
    repeats = tuple(Repeat(wall_seconds=s, **about) for s in seconds)
    return Row(name=way, kind=kind(CASES[0], 1), repeats=repeats)


EXTRACT = result(_row("headrace", [4.0, 5.0], 100_000), _row("ffmpeg", [2.0, 5.0], 78_000), cores=2)


def _memory(*held):
    samples = [Sample(seconds=0.0, num_bytes=1, processes=1)]
    samples += [Sample(seconds=1.0 + n, num_bytes=h * MIB, processes=3) for n, h in enumerate(held)]
    return MemoryResult(
        provenance=result().provenance,
        samples=tuple(samples),
        pictures=1800,
        media_seconds=3600.0,
        wall_seconds=100.0,
    )


def test_each_case_stands_with_how_many_times_as_fast_it_is():
    text = extracting(EXTRACT)
    assert (
        f"| {kind(CASES[0], 1)} | 4.5 (4.0–5.0) | 3.5 (2.0–5.0) | 0.75 (0.50–1.00) |  | 100 / 78 |"
        in text
    )
    assert "not measured" in text


def test_memory_is_held_quarter_against_quarter_without_start_and_end():
    memory = _memory(50, 100, 100, 110)
    assert [memory.quarter(n) / MIB for n in range(4)] == [50, 100, 100, 110]
    assert memory.growth == pytest.approx(0.1)
    assert "60 min, 1,800 pictures in 100 s" in flat(memory)
    assert "50, 100, 100, 110 MiB" in flat(memory)


def test_cores_for_a_million_hours_follow_from_the_speed_of_one():
    sequential = result(row("headrace", [600.0], cpu_seconds=4.0))
    text = bench_plan.decoding(sequential, EXTRACT)
    # 1,200 frames in 4 s of a core are 10 hours of 30 frames/s in an hour of it.
    assert "| web: every frame, to 256×256 | 10 | 4,167 | 139 |" in text
    assert f"| {CASES[0].name} | 20 | 2,083 | 69 |" in text


def test_the_plan_is_carried_on_to_a_million_hours():
    known = Repeat(wall_seconds=0.5, memory_bytes=5 * 10**6, written_bytes=2_000_000)
    rows = (
        PlanRow(hours=1.0, videos=45, new=Repeat(wall_seconds=5.0), known=known),
        PlanRow(hours=10.0, videos=450, failure="no memory"),
    )
    text = bench_plan.planning(PlanResult(provenance=result().provenance, rows=rows[:1]))
    assert "| 1 h, 45 videos | 5.0 | 0.5 | 5 MiB | 2.0 MB |" in text
    assert "would hold 5.0 TB" in text
    assert "failed: no memory" in bench_plan.planning(
        PlanResult(provenance=result().provenance, rows=rows)
    )


def test_features_are_counted():
    assert "| 512 numbers, float16 | 3.7 TB | 7,200 | 14 million |" in bench_plan.features()


def test_a_way_to_a_store_stands_with_what_it_asked_of_it():
    turn = Turn(
        repeat=Repeat(wall_seconds=2.0, frames=10),
        reads=7,
        read_bytes=70,
        seeks=2,
        requests=3,
        sent_bytes=15_000_000,
    )
    rows = tuple(
        RemoteRow(way=way, pattern=pattern, latency_ms=late, turns=(turn,))
        for way, late in (("python_file", None), ("fsspec_http", 20))
        for pattern in ("scan", "every")
    )
    rows += (RemoteRow(way="fsspec_http", pattern="random", latency_ms=20, failure="no aiohttp"),)
    found = RemoteResult(
        provenance=result().provenance, file_bytes=12_000_000, frames=2400, rows=rows
    )
    text = remote(found)
    assert (
        "| fsspec, 5 MB ahead; 20 ms | 2.00 | 2.00 | failed: no aiohttp | 3, 15.0 | 3, 15.0 |  |"
        in text
    )
    assert "7 reads and 2 seeks (scan), 7 reads and 2 seeks (every frame)" in text


def test_so_many_hours_are_planned_new_and_known(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=30))

    row = planned(clip, 160 / 3600, 1, answer_here)
    assert (row.videos, row.chunks) == (2, 2)
    assert row.new.frames == row.known.frames == 60


def test_a_plan_that_fails_is_kept_as_failed(tmp_path):
    def ask(asked):
        raise WorkerError("no memory")

    assert planned(tmp_path / "clip.mp4", 1.0, 1, ask).failure == "no memory"


def test_a_command_is_watched_until_it_ends(tmp_path, monkeypatch):
    told = tmp_path / "told"
    os.mkfifo(told)

    def held_once_it_is_taken(pid):
        with told.open("w"):
            found = held(pid)
        monkeypatch.setattr(bench_extract_memory, "_held", held)
        return found

    held = bench_extract_memory._held
    monkeypatch.setattr(bench_extract_memory, "_held", held_once_it_is_taken)
    code = f"b = bytes(range(256)) * 2**16; open({str(told)!r}).read()"
    samples = watched([sys.executable, "-c", code])
    assert samples[0].num_bytes > 16 << 20
    assert {each.processes for each in samples} == {1}
