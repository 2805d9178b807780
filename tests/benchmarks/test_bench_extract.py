"""Benchmarks of extraction: images, memory, plans, features and their correlation."""

import os
import sys
from fractions import Fraction

import numpy as np
import pytest

from benchmark_fakes import result
from benchmarks import bench_extract_memory
from benchmarks.bench_correlation import cut
from benchmarks.bench_extract import CASES, Case, answer, at_rate, contest, kind, variants, wanted
from benchmarks.bench_extract_memory import sample_memory
from benchmarks.bench_features import contest as contest_features
from benchmarks.bench_features import least_cosine
from benchmarks.bench_plan import time_plan
from benchmarks.media import one_keyframe
from benchmarks.worker import WorkerError, answer_here
from headrace.testing.synth import SynthClip, write_clip

PARAMETERS = {"rate": 1, "size": (256, 256), "workers": 1}


@pytest.fixture
def clip(tmp_path):
    return write_clip(tmp_path / "clip", SynthClip(num_frames=75, gop=25, b_frames=2))


@pytest.mark.parametrize(("frames", "expected"), [("fps", [0, 30, 60]), ("keyframes", [0, 25, 50])])
def test_ffmpeg_and_headrace_write_equal_images(clip, tmp_path, frames, expected):
    assert wanted(clip, frames, 1) == expected
    parameters = {**PARAMETERS, "paths": [str(clip)], "frames": frames}
    images = {}
    for variant in ("headrace", "ffmpeg", "ffmpeg_predicted"):
        thumbnails = tmp_path / f"{variant}.npz"
        answer(way=variant, picture="png", pictures=str(thumbnails), **parameters)
        with np.load(thumbnails) as stored:
            assert stored["requests"].tolist() == [[0, n] for n in expected]
            images[variant] = stored["pictures"]
    assert np.array_equal(images["headrace"], images["ffmpeg"])
    assert np.array_equal(images["headrace"], images["ffmpeg_predicted"])


def test_a_timed_command_returns_frames_and_bytes(clip):
    timed = answer(way="ffmpeg", picture="jpg", paths=[str(clip)], frames="fps", **PARAMETERS)
    assert timed["frames"] == 3
    assert timed["written_bytes"] > 0


def test_the_frame_shown_at_a_moment_is_selected():
    assert at_rate([Fraction(n, 4) for n in range(9)], 1) == [0, 4, 8]
    assert at_rate([Fraction(0), Fraction(2, 5), Fraction(6, 5)], 1) == [0, 1]


def test_a_clip_with_one_keyframe_keeps_its_frames(clip):
    single = one_keyframe(clip)
    assert wanted(single, "keyframes", 1) == [0]
    assert len(wanted(single, "fps", 1)) == 3
    assert one_keyframe(clip).stat().st_mtime_ns == single.stat().st_mtime_ns


def test_a_process_per_video_needs_several_videos_and_cores():
    many, single = (Case(name="a", kind="web", videos=n) for n in (4, 1))
    assert "ffmpeg_at_once" in variants(many, 2)
    assert "ffmpeg_at_once" not in [*variants(many, 1), *variants(single, 2)]


def test_images_are_compared_once_and_timed_on_one_and_several_cores(clip, monkeypatch):
    monkeypatch.setattr(Case, "paths", lambda case, root: [clip])
    compared = []

    def ask(request):
        if request["case"] == "cases:every_frame" or "pictures" in request:
            still = np.zeros((75, 32, 32, 3), np.float16)
            arrays = {"a": still}
            if request["case"] != "cases:every_frame":
                compared.append((request["way"], request["picture"]))
                arrays = {"requests": np.array([[0, 0]]), "pictures": still[:1]}
            np.savez(request["pictures"], **arrays)
            return {"versions": {}}
        return {"wall_seconds": 2.0, "frames": 4, "written_bytes": 8}

    [case] = [case for case in CASES if case.kind == "cam"]
    rows = contest(result(), case, None, 2, 3, ask).rows
    assert compared == [("headrace", "png"), ("ffmpeg", "png")]
    assert [(row.name, row.kind) for row in rows] == [
        (name, kind(case, cores)) for name in ("headrace", "ffmpeg") for cores in (1, 2)
    ]
    assert all(len(row.repeats) == 3 and row.speed == 2.0 for row in rows)


def test_hours_of_video_are_planned_with_new_and_known_files(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=30))

    row = time_plan(clip, 160 / 3600, 1, answer_here)
    assert (row.videos, row.chunks) == (2, 2)
    assert row.new.frames == row.known.frames == 60


def test_a_failed_plan_stays_in_the_result(tmp_path):
    def ask(request):
        raise WorkerError("no memory")

    assert time_plan(tmp_path / "clip.mp4", 1.0, 1, ask).failure == "no memory"


def test_memory_is_sampled_until_the_command_ends(tmp_path, monkeypatch):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def pss_bytes_once_allocated(pid):
        with fifo.open("w"):
            sizes = pss_bytes(pid)
        monkeypatch.setattr(bench_extract_memory, "_pss_bytes", pss_bytes)
        return sizes

    pss_bytes = bench_extract_memory._pss_bytes
    monkeypatch.setattr(bench_extract_memory, "_pss_bytes", pss_bytes_once_allocated)
    code = f"b = bytes(range(256)) * 2**16; open({str(fifo)!r}).read()"
    samples = sample_memory([sys.executable, "-c", code])
    assert samples[0].num_bytes > 16 << 20
    assert {sample.processes for sample in samples} == {1}


VIDEOS = {"paths": ["a.mp4"], "weights": "w.pth", "rate": 5}


@pytest.mark.parametrize(
    ("theirs", "least"), [([[2.0, 0.0], [0.0, 1.0]], 1.0), ([[0.0, 1.0]] * 2, 0.0), ([[1, 0]], 0.0)]
)
def test_features_are_compared_with_the_bare_loop(tmp_path, theirs, least):
    def ask(request, *, cache):
        expected = [[1.0, 0.0], [0.0, 1.0]]
        np.save(request["kept"], np.array(expected if request["way"] == "bare" else theirs))

    assert least_cosine(VIDEOS, tmp_path, ask) == least


def test_a_second_run_uses_the_cache_folder_of_the_first(monkeypatch):
    requests = []

    def ask(request, *, cache):
        requests.append((request["way"], request["cache"].partition(":")[0], cache))
        if request["way"] == "one_by_one":
            raise WorkerError("no cv2")
        return {"wall_seconds": 2.0, "frames": 10}

    rows = {row.name: row for row in contest_features(VIDEOS, 2, ask)}
    assert [row.name for row in rows.values() if row.failure] == ["one_by_one"]
    assert all(len(row.repeats) == 2 for row in rows.values() if not row.failure)
    ours = [("headrace", cache) for cache in ("none", "sqlite", "redis") for _ in range(2)]
    commands = [(way, cache) for way, cache, _ in requests[:9]]
    assert commands == [("bare", "none"), ("bare", "none"), ("one_by_one", "none"), *ours]
    folders = [folder for *_, folder in requests[:9]]
    assert folders[5] == folders[6] != folders[7] == folders[8]


def test_pairs_with_stride_two_are_disjoint():
    burst, video = cut([np.array([9]), np.array([4])], frames_per_burst=2, distance=2)
    assert burst.tolist() == [0, 1, 0, 1, 2, 3, 2, 3, -1, 4, 5, 4, 5]
    assert video.tolist() == [0] * 9 + [1] * 4


def test_bursts_stay_inside_their_gop():
    burst, video = cut([np.array([5, 3]), np.array([7])], frames_per_burst=3, distance=1)
    assert burst.tolist() == [0, 0, 0, -1, -1, 1, 1, 1, 2, 2, 2, 3, 3, 3, -1]
    assert video.tolist() == [0] * 8 + [1] * 7
