"""bench_extract, its memory and bench_plan: the same pictures, then times, memory, plans."""

import os
import sys
from fractions import Fraction

import numpy as np
import pytest

from benchmark_fakes import result
from benchmarks import bench_extract_memory
from benchmarks.bench_extract import CASES, Case, answer, at_rate, contest, kind, wanted, ways
from benchmarks.bench_extract_memory import sample_memory
from benchmarks.bench_plan import time_plan
from benchmarks.media import one_keyframe
from benchmarks.worker import WorkerError, answer_here
from headrace.testing.synth import SynthClip, write_clip

ASKED = {"rate": 1, "size": (256, 256), "workers": 1}


@pytest.fixture
def clip(tmp_path):
    return write_clip(tmp_path / "clip", SynthClip(num_frames=75, gop=25, b_frames=2))


@pytest.mark.parametrize(("frames", "expected"), [("fps", [0, 30, 60]), ("keyframes", [0, 25, 50])])
def test_ffmpeg_makes_the_pictures_that_headrace_makes(clip, tmp_path, frames, expected):
    assert wanted(clip, frames, 1) == expected
    asked = {**ASKED, "paths": [str(clip)], "frames": frames}
    found = {}
    for way in ("headrace", "ffmpeg", "ffmpeg_predicted"):
        place = tmp_path / f"{way}.npz"
        answer(way=way, picture="png", pictures=str(place), **asked)
        with np.load(place) as stored:
            assert stored["requests"].tolist() == [[0, n] for n in expected]
            found[way] = stored["pictures"]
    assert np.array_equal(found["headrace"], found["ffmpeg"])
    assert np.array_equal(found["headrace"], found["ffmpeg_predicted"])


def test_a_timed_command_tells_what_came(clip):
    timed = answer(way="ffmpeg", picture="jpg", paths=[str(clip)], frames="fps", **ASKED)
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


def test_so_many_hours_are_planned_new_and_known(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=30))

    row = time_plan(clip, 160 / 3600, 1, answer_here)
    assert (row.videos, row.chunks) == (2, 2)
    assert row.new.frames == row.known.frames == 60


def test_a_plan_that_fails_is_kept_as_failed(tmp_path):
    def ask(asked):
        raise WorkerError("no memory")

    assert time_plan(tmp_path / "clip.mp4", 1.0, 1, ask).failure == "no memory"


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
    samples = sample_memory([sys.executable, "-c", code])
    assert samples[0].num_bytes > 16 << 20
    assert {each.processes for each in samples} == {1}
