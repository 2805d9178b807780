"""Commands over one stream of a file, and over pictures in order, as a user meets them."""

import json
from dataclasses import replace

import pytest

from cli.pictures import write_pictures
from headrace.testing.synth import SynthClip, write_streams

CAMERAS = ("CAM_BACK", "CAM_FRONT")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    clip = SynthClip(num_frames=20, container="mkv")
    clips = [clip, replace(clip, num_frames=14, size=(64, 96))]
    return write_streams(tmp_path_factory.mktemp("two") / "two", clips)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("pictures") / "frames", 12)


@pytest.mark.parametrize("stream", ["1", "v:1"])
def test_a_stream_is_chosen_by_a_flag(call, two, stream):
    code, out, _ = call("clip", two, "--stream", stream, "--num-frames", 3, "--json")
    assert (code, json.loads(out)["shape"]) == (0, [3, 64, 96, 3])
    code, out, _ = call("index", two, "--stream", stream, "--json")
    [row] = json.loads(out)
    assert (code, row["frames"], row["height"]) == (0, 14, 64)
    code, out, _ = call("doctor", "--parity", two, "--stream", stream, "--json")
    [row] = json.loads(out)
    assert (code, row["frames"], row["mismatches"]) == (0, 14, [])


def test_pictures_are_read_with_their_rate(call, pictures):
    for named in (pictures, pictures / "%05d.jpg"):
        code, out, _ = call("clip", named, "--rate", "12.5", "--num-frames", 3, "--json")
        found = json.loads(out)
        assert (code, found["pts_seconds"]) == (0, [0, 0.16, 0.32])
        code, out, _ = call("index", named, "--rate", "25/2", "--json")
        [row] = json.loads(out)
        assert (code, row["frames"], row["frame_rate"]) == (0, 12, 12.5)
        assert call("doctor", "--parity", named, "--rate", 10)[0] == 0
    assert call("index", pictures, "--rate", 10, "--verify")[0] == 0


def test_a_plan_is_made_of_pictures(call, pictures):
    code, out, _ = call("plan", pictures, "--rate", 10, "--batch-size", 4, "--json")
    assert code == 0
    assert json.loads(out)


def test_cameras_are_folders_of_pictures_with_a_rate(call, tmp_path):
    for clip, count in (("a", 6), ("b", 4)):
        for camera in CAMERAS:
            write_pictures(tmp_path / "set" / clip / camera, count)
    index = tmp_path / "index.json"
    command = ("index", "--layout", "cameras", "--rate", 12)
    code, _, err = call(*command, tmp_path / "set", "--out", index)
    assert (code, err) == (0, "2 clips, 10 moments, 2 cameras: CAM_BACK, CAM_FRONT\n")
    assert json.loads(index.read_text()) == {"set": {"a": 6, "b": 4}}
    assert call(*command, index)[0] == 0


def test_missing_and_unequal_cameras_are_named(call, tmp_path):
    write_pictures(tmp_path / "set" / "a" / "CAM_FRONT", 6)
    write_pictures(tmp_path / "set" / "a" / "CAM_BACK", 5)
    write_pictures(tmp_path / "set" / "b" / "CAM_FRONT", 4)
    code, _, err = call("index", "--layout", "cameras", "--rate", 12, tmp_path / "set")
    assert code == 1
    assert "a/CAM_BACK ends after 5 frames" in err
    assert "b/CAM_BACK is missing" in err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("clip", "frames"), "frames is a folder; give a video file, or, if it holds pictures"),
        (("clip", "frames/%05d.jpg"), "if it is a pattern of pictures, say with --rate"),
        (("index", "frames"), "pictures in order need a rate"),
        (("clip", "frames", "--rate", "0"), "rate must be above 0"),
        (("clip", "frames", "--rate", "fast"), "rate must be a finite number"),
        (("clip", "frames", "--rate", "5", "--stream", "1"), "pictures have no streams"),
        (("clip", "frames/0*.jpg", "--rate", "5"), "give a folder of pictures, or a pattern"),
        (("clip", "frames/%05d.png", "--rate", "5"), "frames/%05d.png"),
        (("clip", "frames/%d%d.jpg", "--rate", "5"), "a pattern of pictures has one number"),
        (("clip", "gone", "--rate", "5"), "no such file or directory"),
        (("doctor", "--rate", "5"), "--stream and --rate are for --parity"),
        (("doctor", "--stream", "1"), "--stream and --rate are for --parity"),
        (("index", "--layout", "cameras", "frames"), "folders of pictures are read with a rate"),
        (("index", "--layout", "cameras", "--stream", "1", "frames"), "--stream: only with"),
        (("index", "--layout", "cameras", "--rate", "x", "frames"), "rate must be a finite number"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(call, pictures, monkeypatch, command, said):
    monkeypatch.chdir(pictures.parent)
    code, out, err = call(*command)
    assert code != 0
    assert said in err
    assert (out, err.count("\n")) == ("", 1)


def test_camera_streams_are_measured_on_folders_of_pictures(call, tmp_path):
    for camera in ("CAM_FRONT", "CAM_BACK"):
        write_pictures(tmp_path / "set" / "a" / camera, 6)
    (tmp_path / "index.json").write_text('{"set": {"a": 6}}')
    command = ("bench", "cameras", "--index-file", tmp_path / "index.json")
    command += ("--ways", "decode", "--ranks", 1, "--workers", 1, "--out", tmp_path / "out")
    code, _, err = call(*command, "--size", 32, 48)
    assert code == 2
    assert "folders of pictures are read with a rate (picture_rate=, --rate)" in err
    options = ("--rate", "12", "--cameras", "CAM_FRONT", "--reference", "CAM_FRONT")
    code, out, err = call(*command, *options, "--size", 32, 48, "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert (record["cameras"], record["pictures"]) == (1, 6)


@pytest.mark.parametrize(
    "command",
    [
        ("index",),
        ("doctor", "--parity"),
        ("plan",),
        ("clip", "--num-frames", 3),
        ("bench", "sampling"),
        ("proxy", "-o", "out"),
    ],
)
def test_an_address_is_refused_before_anything_is_read(call, command):
    code, _, err = call(*command, "https://bob:pass@example.com/a.mp4")
    assert code == 2
    assert "https://... is an address, and addresses are not read here; copy the file" in err
    assert "pass" not in err
