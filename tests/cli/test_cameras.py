"""`headrace index --layout cameras` and `headrace bench cameras` as a user meets them."""

import json
import re
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


@pytest.fixture
def unequal(tmp_path):
    """A clip whose second camera by name is longer."""
    (tmp_path / "videos" / "a").mkdir(parents=True)
    for camera, count in {"back": 5, "front": 8}.items():
        write_clip(tmp_path / "videos" / "a" / camera, SynthClip(num_frames=count, size=(64, 96)))
    return tmp_path / "videos"


@pytest.mark.parametrize(
    ("options", "count", "problems"),
    [
        ((), 8, ["back.mp4 ends after 5 frames"]),
        (("--reference", "front"), 8, ["back.mp4 has no frame for 3 of 8 moments"]),
        (("--reference", "back"), 5, ["back.mp4 ends after 5 frames"]),
        (("--reference", "longest"), 8, ["back.mp4 has no frame for 3 of 8 moments"]),
        (("--cameras", "front"), 8, []),
        (("--cameras", "back"), 5, []),
        (("--cameras", "front,back"), 8, ["back.mp4 has no frame for 3 of 8 moments"]),
    ],
)
def test_cameras_and_their_reference_are_chosen(call, unequal, tmp_path, options, count, problems):
    """What is written so is read so, and with other cameras too."""
    path = tmp_path / "index.json"
    command = ("index", "--layout", "cameras")
    code, _, err = call(*command, unequal, "--out", path, *options)
    assert code == bool(problems)
    assert json.loads(path.read_text()) == {"videos": {"a": count}}
    said = err.splitlines()[1:]
    assert [part in line for part, line in zip(problems, said, strict=True)] == [True] * len(said)
    for chosen in ("front", "back"):
        assert call(*command, path, "--cameras", chosen)[0] == 0


def test_cameras_that_are_not_there_are_refused(call, unequal, tmp_path):
    path = tmp_path / "index.json"
    command = ("index", "--layout", "cameras", unequal, "--out", path)
    code, _, err = call(*command, "--cameras", "front,top")
    assert (code, "no clip has a camera top; there is back, front" in err) == (2, True)
    code, _, err = call(*command, "--cameras", "front", "--reference", "back")
    assert (code, "the reference must be one of the cameras that are read, front" in err) == (
        *(2, True),
    )
    assert not path.exists()


def test_without_out_the_index_goes_to_stdout(call, made, monkeypatch):
    monkeypatch.chdir(made.parent)
    code, out, _ = call("index", "--layout", "cameras", "videos")
    assert (code, json.loads(out)) == (0, {"videos": LENGTHS})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--out", "index.json"), "--out: only with --layout cameras"),
        (("--sync", "nearest", "--tolerance-ms", 5), "--sync, --tolerance-ms: only with"),
        (("--reference", "left", "--cameras", "left"), "--cameras, --reference: only with"),
        (("--layout", "cameras", "--verify"), "--verify: only with --layout videos"),
    ],
)
def test_options_of_the_other_layout_are_refused(call, made, options, said):
    code, out, err = call("index", made, *options)
    assert code != 0
    assert (said in err, out) == (True, "")


def test_slots_that_stay_decode_once_and_those_that_wander_do_not(call, index_file, tmp_path):
    options = ("--ranks", "1,2", "--workers", "2", "--group-num", 2, "--size", 32, 48)
    options += ("--max-seconds", 0)
    code, out, err = call(
        "bench", "cameras", "--index-file", index_file, *options, "--out", tmp_path / "out"
    )
    assert re.fullmatch(r"Time: about .+ for 9 epochs of 84 pictures\n", err)
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
        (("--cameras", "top"), "no clip has a camera top; there is back, front, left"),
        (("--reference", "top"), "the reference must be one of the cameras that are read"),
        (("--rate", "5"), "no camera was found: there are no <camera> folders of pictures"),
        (("--rate", "fast"), "rate must be a finite number"),
        (("--ways", "fast"), "ways must be among decode, loader, dataset, wandering; got fast"),
    ],
)
def test_impossible_requests_are_refused(call, index_file, tmp_path, options, said):
    code, _, err = call(
        "bench", "cameras", "--index-file", index_file, *options, "--out", tmp_path / "out"
    )
    assert code != 0
    assert said in err
