"""`headrace bench transfer`, as a user meets it."""

import json

import pytest

from decode.gpus import needs_no_gpu
from headrace.testing.synth import SynthClip, write_clip

FAST = ("--size", 48, 64, "--batch-size", 2, "--seconds", 0.01, "--repeats", 1)


@pytest.fixture
def video(tmp_path):
    return write_clip(tmp_path / "good", SynthClip(num_frames=4))


@needs_no_gpu
def test_without_a_gpu_bytes_are_counted_and_it_is_said_that_nothing_was_timed(
    call, video, tmp_path
):
    out = tmp_path / "out"
    code, said, err = call("bench", "transfer", video, *FAST, "--out", out)
    assert (code, err) == (0, "")
    lines = said.splitlines()
    assert lines[1] == "From the video to a normalised tensor of 48x64 on a GPU"
    assert lines[3].split() == ["way", "bytes", "up", "bytes", "down", "frames/s", "ms", "after"]
    assert [line.split()[-4:] for line in lines[4:9]] == [
        ["36,864", "0", "-", "-"],
        ["36,864", "0", "-", "-"],
        ["9,216", "0", "-", "-"],
        ["-", "-", "-", "-"],
        ["-", "-", "-", "-"],
    ]
    assert "Nothing was timed: no NVIDIA GPU here" in said
    assert "chart-" in (out / "transfer.html").read_text()


def test_json_is_all_that_is_printed(call, video, tmp_path):
    code, said, _ = call("bench", "transfer", video, *FAST, "--json", "--out", tmp_path / "out")
    assert code == 0
    assert json.loads(said)["ways"][0]["way"] == "CPU, float32"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--batch-size", 0), "batch"),
        (("--seconds", 0), "seconds must be > 0"),
        (("--size", 0, 64), "size"),
        (("--device", "cuda"), "No such option"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_decoded(call, video, tmp_path, options, said):
    code, _, err = call("bench", "transfer", video, *options, "--out", tmp_path / "out")
    assert (code, said in err) == (2, True), err
