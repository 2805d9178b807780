"""`headrace index --layout cameras` and `headrace bench cameras` as a user meets them."""

import json
import shutil
from fractions import Fraction

import pytest

from headrace.testing.synth import SynthClip, write_clip
from training.cameras.clips import CAMERAS, write_layout

LENGTHS = {"a": 12, "b": 7, "c": 9}
PICTURES = 3 * sum(LENGTHS.values())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "videos"
    write_layout(folder, LENGTHS)
    return folder


@pytest.fixture
def index_file(call, made, tmp_path):
    path = tmp_path / "index.json"
    assert call("index", "--layout", "cameras", made, "--out", path)[0] == 0
    return path


def test_an_index_is_written_and_checked(call, made, index_file):
    [(video_dir, counts)] = json.loads(index_file.read_text()).items()
    assert (index_file.parent / video_dir).resolve() == made
    assert counts == LENGTHS
    code, out, err = call("index", "--layout", "cameras", index_file)
    assert (code, out) == (0, "")
    assert err == f"3 clips, 28 moments, 3 cameras: {', '.join(CAMERAS)}\n"
    code, out, _ = call("index", "--layout", "cameras", index_file, "--json")
    assert json.loads(out)["problems"] == []


def test_what_is_wrong_is_named(call, made, index_file):
    content = json.loads(index_file.read_text())
    [counts] = content.values()
    counts["b"] = 8
    index_file.write_text(json.dumps(content))
    code, _, err = call("index", "--layout", "cameras", index_file)
    assert code == 1
    assert err.count("the index file says 8 frames") == 1
    assert "b/back.mp4 has 7; write it anew" in err


def test_what_can_be_read_is_written_and_what_cannot_is_named(call, made, tmp_path):
    videos = shutil.copytree(made, tmp_path / "videos")
    (videos / "a" / "back.mp4").unlink()
    (videos / "b" / "back.mp4").write_text("no video")
    for camera in CAMERAS:
        (videos / "c" / f"{camera}.mp4").write_bytes(b"")
    path = tmp_path / "index.json"
    code, _, err = call("index", "--layout", "cameras", videos, "--out", path)
    assert code == 1
    assert json.loads(path.read_text()) == {"videos": {"a": 12, "b": 7}}
    summary, *problems = err.splitlines()
    assert summary == f"2 clips, 19 moments, 3 cameras: {', '.join(CAMERAS)}"
    assert len(problems) == 2 + len(CAMERAS) + 1
    assert "a/back.mp4 is missing" in problems[0]
    assert "b/back.mp4" in problems[1]
    assert "c is not in the index" in problems[-1]
    code, _, err = call("index", "--layout", "cameras", path)
    assert (code, len(err.splitlines())) == (1, 3)


def test_frame_rates_may_differ_where_times_decide(call, tmp_path):
    (tmp_path / "videos" / "a").mkdir(parents=True)
    for camera, rate in {"left": 30, "right": 10}.items():
        clip = SynthClip(num_frames=rate, frame_rate=Fraction(rate), size=(64, 96))
        write_clip(tmp_path / "videos" / "a" / camera, clip)
    command = ("index", "--layout", "cameras", tmp_path / "videos")
    code, _, err = call(*command)
    assert code == 1
    assert "align them by time with sync='nearest' or 'previous'" in err
    assert call(*command, "--sync", "nearest", "--tolerance-ms", 70)[0] == 0
    assert call(*command, "--sync", "previous", "--tolerance-ms", 10)[0] == 1


def test_without_out_the_index_goes_to_stdout(call, made, monkeypatch):
    monkeypatch.chdir(made.parent)
    code, out, _ = call("index", "--layout", "cameras", "videos")
    assert (code, json.loads(out)) == (0, {"videos": LENGTHS})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--out", "index.json"), "--out: only with --layout cameras"),
        (("--sync", "nearest", "--tolerance-ms", 5), "--sync, --tolerance-ms: only with"),
        (("--layout", "cameras", "--verify"), "--verify: only with --layout videos"),
    ],
)
def test_options_of_the_other_layout_are_refused(call, made, options, said):
    code, out, err = call("index", made, *options)
    assert code != 0
    assert (said in err, out) == (True, "")


def test_slots_that_stay_decode_once_and_those_that_wander_do_not(call, index_file, tmp_path):
    options = ("--ranks", "1,2", "--workers", "2", "--group-num", 2, "--size", 32, 48)
    code, out, _ = call(
        "bench", "cameras", "--index-file", index_file, *options, "--out", tmp_path / "out"
    )
    assert code == 0
    assert "Where slots stay, every picture is decoded once, however many ranks and workers" in out
    record = json.loads((tmp_path / "out" / "cameras.json").read_text())
    decoded = {
        (run["way"], run["ranks"]): run["decoded"] / run["delivered"] for run in record["runs"]
    }
    delivered = {(run["way"], run["delivered"]) for run in record["runs"]}
    whole = {(way, PICTURES) for way in ("decode", "loader", "dataset")}
    assert delivered - whole == {("wandering", PICTURES // 3 // 2 * 2 * 3)}  # it drops the tail
    assert record["compared"] == 2 * 3 * min(8, LENGTHS["a"])
    for ranks in (1, 2):
        assert decoded["decode", ranks] == 1
        assert decoded["loader", ranks] == decoded["dataset", ranks] == 1
    assert decoded["wandering", 2] > decoded["wandering", 1] > 1.5
    assert "chart-decoded" in (tmp_path / "out" / "cameras.html").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ranks", "0"), "ranks must be numbers from 1 up, got 0"),
        (("--workers", "two"), "Invalid value for --workers: numbers with commas"),
        (("--ways", "fast"), "ways must be among decode, loader, dataset, wandering; got fast"),
    ],
)
def test_impossible_requests_are_refused(call, index_file, tmp_path, options, said):
    code, _, err = call(
        "bench", "cameras", "--index-file", index_file, *options, "--out", tmp_path / "out"
    )
    assert code != 0
    assert said in err
