"""`headrace index --layout cameras` and `headrace bench cameras` as a user meets them."""

import json
import multiprocessing
import re
import shutil
from fractions import Fraction

import pytest
import torch

from cli.kit import recorded, write_pictures
from headrace.testing.synth import SynthClip, write_clip
from training.cameras.clips import CAMERAS, write_layout

LENGTHS = {"a": 12, "b": 7, "c": 9}
PICTURES = 3 * sum(LENGTHS.values())
EMPTY_BACK = "back.mp4 has no frame for 3 of 8 moments"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "videos"
    write_layout(folder, LENGTHS)
    return folder


@pytest.fixture
def index(call):
    """Return a function: words -> (exit code, stdout, lines on stderr) of an index of cameras."""

    def run(*words):
        code, out, err = call("index", "--layout", "cameras", *words)
        return code, out, err.splitlines()

    return run


@pytest.fixture
def index_file(index, made, tmp_path):
    path = tmp_path / "index.json"
    assert index(made, "--out", path)[0] == 0
    return path


def test_an_index_is_written_and_checked(index, made, index_file, monkeypatch):
    [(video_dir, counts)] = recorded(index_file.parent, "index.json").items()
    assert ((index_file.parent / video_dir).resolve(), counts) == (made, LENGTHS)
    about = [f"3 clips, 28 moments, 3 cameras: {', '.join(CAMERAS)}"]
    assert index(index_file) == (0, "", about)
    assert json.loads(index(index_file, "--json")[1])["problems"] == []
    monkeypatch.chdir(made.parent)
    code, out, _ = index("videos")
    assert (code, json.loads(out)) == (0, {"videos": LENGTHS}), "without --out"


def test_what_is_wrong_is_named(index, index_file):
    content = recorded(index_file.parent, "index.json")
    [counts] = content.values()
    counts["b"] = 8
    index_file.write_text(json.dumps(content))
    code, _, lines = index(index_file)
    assert (code, sum("the index file says 8 frames" in line for line in lines)) == (1, 1)
    assert any("b/back.mp4 has 7; write it anew" in line for line in lines)


def test_what_can_be_read_is_written_and_what_cannot_is_named(index, made, tmp_path):
    videos = shutil.copytree(made, tmp_path / "videos")
    (videos / "a" / "back.mp4").unlink()
    (videos / "b" / "back.mp4").write_text("no video")
    for camera in CAMERAS:
        (videos / "c" / f"{camera}.mp4").write_bytes(b"")
    path = tmp_path / "index.json"
    code, _, (summary, *problems) = index(videos, "--out", path)
    assert (code, recorded(tmp_path, "index.json")) == (1, {"videos": {"a": 12, "b": 7}})
    assert summary == f"2 clips, 19 moments, 3 cameras: {', '.join(CAMERAS)}"
    assert len(problems) == 2 + len(CAMERAS) + 1
    named = ("a/back.mp4 is missing", "b/back.mp4", "c is not in the index")
    for words, line in zip(named, (*problems[:2], problems[-1]), strict=True):
        assert words in line
    code, _, lines = index(path)
    assert (code, len(lines)) == (1, 3)


def test_frame_rates_may_differ_where_times_decide(index, tmp_path):
    folder = tmp_path / "videos"
    (folder / "a").mkdir(parents=True)
    for camera, rate in {"left": 30, "right": 10}.items():
        clip = SynthClip(num_frames=rate, frame_rate=Fraction(rate), size=(64, 96))
        write_clip(folder / "a" / camera, clip)
    code, _, lines = index(folder)
    advice = "align them by time with sync='nearest' or 'previous'"
    assert (code, any(advice in line for line in lines)) == (1, True)
    assert index(folder, "--sync", "nearest", "--tolerance-ms", 70)[0] == 0
    assert index(folder, "--sync", "previous", "--tolerance-ms", 10)[0] == 1


@pytest.mark.parametrize(
    ("options", "count", "problem"),
    [
        ("", 8, "back.mp4 ends after 5 frames"),
        ("--reference front", 8, EMPTY_BACK),
        ("--reference back", 5, "back.mp4 ends after 5 frames"),
        ("--reference longest", 8, EMPTY_BACK),
        ("--cameras front", 8, None),
        ("--cameras back", 5, None),
        ("--cameras front,back", 8, EMPTY_BACK),
    ],
)
def test_cameras_and_their_reference_are_chosen(index, tmp_path, options, count, problem):
    """What is written so is read so, and with other cameras too; one camera is longer."""
    (tmp_path / "videos" / "a").mkdir(parents=True)
    for camera, length in {"back": 5, "front": 8}.items():
        clip = SynthClip(num_frames=length, size=(64, 96))
        write_clip(tmp_path / "videos" / "a" / camera, clip)
    path = tmp_path / "index.json"
    code, _, (_, *problems) = index(tmp_path / "videos", "--out", path, *options.split())
    assert (code, recorded(tmp_path, "index.json")) == (bool(problem), {"videos": {"a": count}})
    assert (len(problems), problem is None or problem in problems[0]) == (bool(problem), True)
    assert [index(path, "--cameras", name)[0] for name in ("front", "back")] == [0, 0]


def test_cameras_are_folders_of_pictures_with_a_rate(index, tmp_path):
    for clip, count in (("a", 6), ("b", 4)):
        for camera in ("BACK", "FRONT"):
            write_pictures(tmp_path / "set" / clip / camera, count)
    path = tmp_path / "index.json"
    about = ["2 clips, 10 moments, 2 cameras: BACK, FRONT"]
    assert index("--rate", 12, tmp_path / "set", "--out", path) == (0, "", about)
    assert recorded(tmp_path, "index.json") == {"set": {"a": 6, "b": 4}}
    assert index("--rate", 12, path)[0] == 0
    shutil.rmtree(tmp_path / "set" / "b" / "BACK")
    (tmp_path / "set" / "a" / "BACK" / "00005.jpg").unlink()
    code, _, lines = index("--rate", 12, tmp_path / "set")
    said = "\n".join(lines)
    assert (code, "a/BACK ends after 5 frames" in said, "b/BACK is missing" in said) == (
        *(1, True, True),
    )


@pytest.fixture
def bench(call, tmp_path, monkeypatch):
    """Return a function: index file, words -> what a benchmark of its cameras came to.

    Ranks are forked: each that is spawned imports PyTorch anew, which takes seconds of a core.
    PyTorch computes in one thread, as a forked process has none of the others.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    forked = multiprocessing.get_context("fork")
    monkeypatch.setattr("headrace.runtime.processes.multiprocessing.get_context", lambda _: forked)

    def run(file, *words):
        given = ("--index-file", file, "--size", 32, 48, "--out", tmp_path / "out")
        return call("bench", "cameras", *given, *words)

    yield run
    torch.set_num_threads(threads)


def test_slots_that_stay_decode_once_and_those_that_wander_do_not(bench, index_file, tmp_path):
    options = ("--ranks", "1,2", "--workers", "2", "--group-num", 2, "--max-seconds", 0)
    code, out, err = bench(index_file, *options)
    assert (code, bool(re.fullmatch(r"Time: about .+ for 9 epochs of 84 pictures\n", err))) == (
        *(0, True),
    )
    assert "Where slots stay, every picture is decoded once, however many ranks and workers" in out
    record = recorded(tmp_path / "out", "cameras.json")
    runs = {(run["way"], run["ranks"]): run for run in record["runs"]}
    decoded = {at: run["decoded"] / run["delivered"] for at, run in runs.items()}
    delivered = {(way, run["delivered"]) for (way, _), run in runs.items()}
    whole = {(way, PICTURES) for way in ("decode", "loader", "dataset")}
    assert delivered - whole == {("wandering", PICTURES // 3 // 2 * 2 * 3)}  # it drops the tail
    assert record["compared"] == 2 * 3 * min(8, LENGTHS["a"])
    stay = [decoded[way, ranks] for way in ("decode", "loader", "dataset") for ranks in (1, 2)]
    assert stay == [1] * 6
    assert decoded["wandering", 2] > decoded["wandering", 1] > 1.5
    assert "chart-decoded" in (tmp_path / "out" / "cameras.html").read_text()


def test_camera_streams_are_measured_on_folders_of_pictures(bench, tmp_path):
    for camera in ("FRONT", "BACK"):
        write_pictures(tmp_path / "set" / "a" / camera, 6)
    (tmp_path / "index.json").write_text('{"set": {"a": 6}}')
    options = ("--rate", "12", "--cameras", "FRONT", "--reference", "FRONT")
    options += ("--ways", "decode", "--ranks", 1, "--workers", 1, "--json")
    code, out, err = bench(tmp_path / "index.json", *options)
    record = json.loads(out)
    assert (code, err, record["cameras"], record["pictures"]) == (0, "", 1, 6)
