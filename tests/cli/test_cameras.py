"""`headrace index --layout cameras` and `headrace bench cameras`."""

import json
import re
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from cli.kit import recorded, transcript, write_pictures
from headrace.testing.synth import SynthClip, write_clip
from loaders.cameras.clips import CAMERAS, write_layout

LENGTHS = {"a": 12, "b": 7, "c": 9}
PICTURES = 3 * sum(LENGTHS.values())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "videos"
    write_layout(folder, LENGTHS)
    return folder


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def index(call):
    """Return a function: argument lines -> transcript of `index --layout cameras` with each."""
    return lambda *lines: transcript(call, *(f"index --layout cameras {line}" for line in lines))


def test_an_index_is_written_and_checked_and_problems_are_listed(holds, index, made, tmp_path):
    """Readable clips are written."""
    file, videos = tmp_path / "index.json", shutil.copytree(made, tmp_path / "videos")
    shown = [index("videos --out index.json", "index.json", "index.json --json", "videos")]
    shown.append(file.read_text())
    file.write_text(json.dumps({"videos": LENGTHS | {"b": 8}}))
    shown.append(index("index.json"))
    (videos / "a" / "back.mp4").unlink()
    (videos / "b" / "back.mp4").write_text("no video")
    for camera in CAMERAS:
        (videos / "c" / f"{camera}.mp4").write_bytes(b"")
    shown += [index("videos --out index.json"), file.read_text(), index("index.json")]
    holds("index_of_cameras.txt", "\n".join(shown))


def test_frame_rates_may_differ_if_frames_are_matched_by_time(holds, index):
    for camera, rate in {"left": 30, "right": 10}.items():
        write_camera(camera, SynthClip(num_frames=rate, frame_rate=Fraction(rate), size=(64, 96)))
    syncs = ("", " --sync nearest --tolerance-ms 70", " --sync previous --tolerance-ms 10")
    holds("index_by_times.txt", index(*(f"videos{sync}" for sync in syncs)))


def write_camera(camera, clip):
    folder = Path("videos", "a")
    folder.mkdir(parents=True, exist_ok=True)
    write_clip(folder / camera, clip)


CHOICES = (
    *("", "--reference front", "--reference back", "--reference longest"),
    *("--cameras front", "--cameras back", "--cameras front,back"),
)


def test_cameras_and_their_reference_are_chosen(holds, index):
    """An index is read with the cameras it was written with, and with others; lengths differ."""
    for camera, length in {"back": 5, "front": 8}.items():
        write_camera(camera, SynthClip(num_frames=length, size=(64, 96)))
    shown = []
    for options in CHOICES:
        shown += [index(f"videos --out index.json {options}"), Path("index.json").read_text()]
        shown.append(index(*(f"index.json --cameras {name}" for name in ("front", "back"))))
    holds("index_of_chosen_cameras.txt", "\n".join(shown))


def test_cameras_may_be_image_folders_with_a_frame_rate(holds, index):
    for clip, count in (("a", 6), ("b", 4)):
        for camera in ("BACK", "FRONT"):
            write_pictures(Path("set", clip, camera), count)
    shown = index("--framerate 12 set --out index.json", "--framerate 12 index.json")
    shown += f"\n{Path('index.json').read_text()}\n"
    shutil.rmtree(Path("set", "b", "BACK"))
    Path("set", "a", "BACK", "00005.jpg").unlink()
    holds("index_of_pictures.txt", shown + index("--framerate 12 set"))


@pytest.fixture
def bench(call, tmp_path, forked_ranks):
    """Return a function: index file, arguments -> (exit code, stdout, stderr) of the benchmark."""

    def run(file, *words):
        given = ("--index-file", file, "--size", "32x48", "--out", tmp_path / "out")
        return call("bench", "cameras", *given, *words)

    return run


def test_fixed_slots_decode_each_frame_once_and_wandering_slots_more_often(
    bench, index, made, tmp_path
):
    assert index(f"{made} --out index.json").endswith("[0]\n")
    options = ("--ranks", "1,2", "--workers", "2", "--group-num", 2, "--max-seconds", 0)
    code, out, err = bench("index.json", *options)
    assert code == 0
    assert re.fullmatch(r"Time: about .+ for 9 epochs of 84 frames\n", err)
    assert "If slots stay, every frame is decoded once, with any number of ranks and workers" in out
    record = recorded(tmp_path / "out", "cameras.json")
    runs = {(run["way"], run["ranks"]): run for run in record["runs"]}
    decoded = {at: run["decoded"] / run["delivered"] for at, run in runs.items()}
    delivered = {(way, run["delivered"]) for (way, _), run in runs.items()}
    whole = {(way, PICTURES) for way in ("decode", "loader", "dataset")}
    assert delivered - whole == {
        ("wandering", PICTURES // 3 // 2 * 2 * 3)
    }  # without the incomplete last batches
    assert record["compared"] == 2 * 3 * min(8, LENGTHS["a"])
    stay = [decoded[way, ranks] for way in ("decode", "loader", "dataset") for ranks in (1, 2)]
    assert stay == [1] * 6
    assert decoded["wandering", 2] > decoded["wandering", 1] > 1.5
    assert "chart-decoded" in (tmp_path / "out" / "cameras.html").read_text()


def test_camera_streams_are_measured_on_image_folders(bench, tmp_path):
    for camera in ("FRONT", "BACK"):
        write_pictures(tmp_path / "set" / "a" / camera, 6)
    (tmp_path / "index.json").write_text('{"set": {"a": 6}}')
    options = ("--framerate", "12", "--cameras", "FRONT", "--reference", "FRONT")
    options += ("--ways", "decode", "--ranks", 1, "--workers", 1, "--json")
    code, out, err = bench(tmp_path / "index.json", *options)
    record = json.loads(out)
    assert (code, err, record["cameras"], record["pictures"]) == (0, "", 1, 6)
