"""`--decode` as a user meets it."""

import json
import os
import re
import subprocess
import sys

import pytest

from decode.backends import needs_torchcodec
from decode.gpus import needs_no_gpu
from headrace.testing.synth import SynthClip, write_clip

FAST = ("--model-name", "squeezenet1_1", "--weights", "none", "--batch-size", 8, "--no-video")


@pytest.fixture
def good(tmp_path):
    return write_clip(tmp_path / "good", SynthClip(num_frames=30))


@needs_torchcodec
def test_the_session_and_the_report_say_what_decoded(call, good, tmp_path):
    out = tmp_path / "out"
    code, said, err = call("run", good, *FAST, "--decode", "torchcodec", "--out", out)
    assert (code, err) == (0, "")
    assert re.search(r"^  decode +torchcodec:cpu$", said, re.MULTILINE)
    session = json.loads((out / "session.json").read_text())
    assert session["provenance"]["configuration"]["decode"] == "torchcodec:cpu"
    assert "torchcodec:cpu" in (out / "report.html").read_text()


@needs_no_gpu
def test_what_the_cpu_did_alone_of_what_it_was_to_share_is_noted_with_the_reason(
    call, good, tmp_path
):
    out = tmp_path / "out"
    code, said, err = call("run", good, *FAST, "--decode", "auto", "--out", out)
    assert (code, err) == (0, "")
    assert "decoded by cpu: " in said
    [note] = json.loads((out / "session.json").read_text())["notes"]
    assert re.match(r"decoded by cpu: \d+ jobs, 30 frames, .*; the CPU alone, as ", note)


@needs_no_gpu
@pytest.mark.parametrize("way", ["cuda", "torchcodec:cuda:0", "pynvvideocodec:cuda"])
def test_without_a_gpu_that_is_said_in_a_line_and_nothing_is_written(call, good, tmp_path, way):
    code, said, err = call("run", good, *FAST, "--decode", way, "--out", tmp_path / "out")
    assert (code, said, len(err.splitlines())) == (1, "", 1)
    assert err.startswith("headrace: decoding on GPU 0 was asked for, torch ")
    assert "finds no CUDA device" in err
    assert err.endswith("leave --decode out to decode on the CPU\n")
    assert not (tmp_path / "out").exists()


def test_without_torchcodec_that_is_said_and_nothing_is_written(call, good, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    code, _, err = call("run", good, *FAST, "--decode", "torchcodec", "--out", tmp_path / "out")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "the backend torchcodec cannot be imported" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--decode", "nvdec"), "'--decode': no way to decode 'nvdec'; name a device"),
        (("--decode", "pynvvideocodec"), "'--decode': pynvvideocodec decodes on NVIDIA GPUs only"),
        (("--decode", "cuda:x"), "'--decode': device must be cpu or cuda:N"),
        (("--decode", "cuda", "--pace", "realtime"), "--decode cuda is for single frames of files"),
        (("--decode", "torchcodec", "--clip-len", 4), "--decode torchcodec is for single frames"),
        (("--decode", "cuda", "--mode", "retrain"), "--decode is for --mode inference"),
        (
            ("--decode", "torchcodec", "--on-error", "conceal"),
            "--on-error conceal needs to be told which frames are damaged",
        ),
    ],
)
def test_where_it_makes_no_sense_it_is_refused_as_usage(call, good, tmp_path, options, words):
    code, _, err = call("run", good, *FAST, *options, "--out", tmp_path / "out")
    assert code == 2
    assert words in err
    assert not (tmp_path / "out").exists()


def test_a_camera_is_not_decoded_on_a_gpu(call, tmp_path):
    code, _, err = call("run", "test://", *FAST, "--decode", "cuda", "--out", tmp_path / "out")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "--decode cuda is for single frames of files at full speed; leave it out" in err
    assert not (tmp_path / "out").exists()


def test_the_tab_key_completes_the_ways_there_are():
    words = {"COMP_WORDS": "headrace run --decode t", "COMP_CWORD": "3"}
    program = "import sys; sys.argv[0] = 'headrace'; from headrace.cli import main; main([])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **words, "_HEADRACE_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (["torchcodec", "torchcodec:cuda"], "")
