"""`headrace extract features` as a user meets it."""

import json
import sys

import numpy as np
import pyarrow.parquet
import pytest

from decode.backends import needs_torchcodec
from decode.gpus import needs_no_gpu
from headrace.testing import damage
from headrace.testing.synth import SynthClip, write_clip

MODEL = """
import torch

class Mean(torch.nn.Module):
    size = (32, 48)
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(2.0))
    def forward(self, frames):
        return frames.float().mean((-2, -1)) * self.scale

def build():
    return Mean()
"""


MEANS = ("--every", 6, "--model", "own_mean:build")


@pytest.fixture
def clip(tmp_path):
    return write_clip(tmp_path / "clip", SynthClip(num_frames=24, b_frames=2))


@pytest.fixture
def extract(call, tmp_path, monkeypatch):
    (tmp_path / "own_mean.py").write_text(MODEL)
    monkeypatch.syspath_prepend(tmp_path)

    def run(*arguments, out="out"):
        flags = ("-o", tmp_path / out, "--workers", 1)
        return call("extract", "features", *arguments, *flags)

    return run


def rows(out):
    return pyarrow.parquet.read_table(out / "features-00000.parquet").to_pylist()


def test_features_of_a_model_of_ones_own_then_from_the_cache_then_nothing_to_do(
    extract, clip, tmp_path
):
    out = tmp_path / "out"
    asked = (clip, "--every", 6, "--model", "own_mean:build")
    code, said, err = extract(*asked)
    assert (code, err) == (0, "")
    assert "packets" not in said, "nobody counted them"
    assert said.endswith(
        f"Features: 4 in {out}\nTable: {out}/features-00000.parquet\nReport: {out}/report.html\n"
    )
    assert extract(*asked) == (0, f"Nothing to do: 4 features are in {out} already\n", "")
    code, said, err = extract(*asked, out="again")
    assert (code, err) == (0, "")
    assert "\n1 of 1 chunks were found in the cache " in said
    [fresh], [found] = rows(out), rows(tmp_path / "again")
    assert (found["index"], found["features"]) == ([0, 6, 12, 18], fresh["features"])
    assert (fresh["cache_hit"], found["cache_hit"]) == (False, True)
    code, said, _ = extract(*asked, "--dry-run", out="third")
    assert "Dry run: 4 features of 1 video, 3 float32 each" in said
    assert "Chunks: 1; 0 are done, 1 are in the cache" in said
    assert said.endswith("Time: not estimated, nothing is left to compute\n")
    assert not (tmp_path / "third").exists()


def test_what_did_not_come_is_named_and_the_exit_code_tells(extract, clip, tmp_path):
    bad = damage.damage_packets(clip, tmp_path / "bad.mp4", ordinals=[13])
    short = write_clip(tmp_path / "short", SynthClip(num_frames=5, size=(64, 96)))
    asked = ("--clip-len", 8, "--hop", 8, "--model", "own_mean:build", "--json")
    code, said, err = extract(tmp_path / "gone.mp4", bad, short, *asked)
    assert code == 3, err
    assert json.loads(said)["kind"] == "extract"
    first, *named = err.splitlines()
    assert first.endswith("of 3 did not come, and 2 videos gave no feature:")
    assert any("no such file" in line for line in named)
    assert any("has 5 frames, and a clip of 8" in line for line in named)
    assert any("bad.mp4 cannot be decoded" in line for line in named)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--every", 1), "say which model by one of --model-name and --model; got none"),
        (("--every", 1, "--model-name", "x", "--model", "a:b"), "got both"),
        (("--model-name", "resnet18"), "say which frames by one of --fps"),
        (("--every", 1, "--model", "a.b"), 'must read like "package.module:function"'),
        (("--every", 1, "--model", "a:b", "--layer", "x"), "--layer belongs to --model-name"),
        (("--every", 1, "--hop", 4, "--model", "a:b"), "--hop is of clips"),
        (("--every", 1, "--clip-len", 4, "--hop", 4, "--model", "a:b"), "give one"),
        (("--clip-len", 30, "--model", "own_mean:build"), "has 24 frames, and a clip of 30"),
        (("--every", 1, "--model", "a:b", "--device", "tpu"), "device must be cpu, cuda"),
        (("--every", 1, "--model", "a:b", "--batch-size", "x"), "a number >= 1, or auto"),
        (
            ("--every", 1, "--model", "a:b", "--batch-size", "x", "--ray", "127.0.0.1:1"),
            "a number >= 1, or auto",
        ),
        (("--every", 1, "--model", "a:b", "--batch-size", 0), "batch_size must be an integer >= 1"),
        (("--every", 1, "--model", "a:b", "--cache", "redis://:pw@h:x"), "cannot be understood"),
        (
            ("--every", 1, "--model", "a:b", "rtsp://camera/1"),
            "features are extracted from files: rtsp://camera is",
        ),
    ],
)
def test_what_is_not_possible_is_said_in_one_line(extract, clip, tmp_path, arguments, words):
    code, said, err = extract(clip, *arguments)
    assert (code, said, err.count("\n")) == (2, "", 1)
    assert words in err
    assert "pw@" not in err
    assert not (tmp_path / "out").exists()


@needs_torchcodec
def test_features_by_another_decoder_are_like_those_by_pyav_and_never_mixed_with_them(
    extract, clip, tmp_path
):
    """Neither in a folder nor in the cache."""
    asked = (clip, *MEANS)
    assert extract(*asked)[0] == 0
    code, _, err = extract(*asked, "--decode", "torchcodec")
    assert code == 2
    assert "decoded_by was not set, now torchcodec" in err
    code, _, err = extract(*asked, "--decode", "torchcodec", out="other")
    assert (code, err) == (0, "")
    ours, theirs = (
        np.concatenate([row["features"] for row in rows(tmp_path / out)])
        for out in ("out", "other")
    )
    assert np.abs(ours - theirs).max() < 2 * 2, "grey levels, and the model doubles them"
    assert not any(row["cache_hit"] for row in rows(tmp_path / "other"))
    assert extract(*asked, "--decode", "torchcodec", out="again")[0] == 0
    assert all(row["cache_hit"] for row in rows(tmp_path / "again"))
    session = json.loads((tmp_path / "other" / "session.json").read_text())
    assert session["provenance"]["configuration"]["decode"] == "torchcodec:cpu"


@needs_no_gpu
def test_by_auto_features_are_those_of_the_cpu_and_the_record_says_what_decoded(
    extract, clip, tmp_path
):
    """They go into one folder; the cache keeps them apart, as it does those of a GPU."""
    assert extract(clip, *MEANS)[0] == 0
    assert extract(clip, *MEANS, "--decode", "auto")[0] == 0
    code, _, err = extract(clip, *MEANS, "--decode", "auto", out="other")
    assert (code, err) == (0, "")
    ours, theirs = (
        np.concatenate([row["features"] for row in rows(tmp_path / out)])
        for out in ("out", "other")
    )
    assert np.array_equal(ours, theirs)
    session = json.loads((tmp_path / "other" / "session.json").read_text())
    assert session["provenance"]["configuration"]["decode"] == "pyav:auto"
    assert "decoded by cpu: 4 frames" in session["notes"]
    assert any(note.startswith("decoded by the CPU alone, as ") for note in session["notes"])


@needs_no_gpu
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_without_a_gpu_nothing_is_written(extract, clip, tmp_path, dry):
    code, _, err = extract(clip, *MEANS, "--decode", "cuda", *dry)
    assert (code, len(err.splitlines())) == (1, 1)
    assert "decoding on GPU 0 was asked for" in err
    assert "leave --decode out" in err
    assert not (tmp_path / "out").exists()


def test_without_torchcodec_nothing_is_written(extract, clip, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    code, _, err = extract(clip, *MEANS, "--decode", "torchcodec")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "the backend torchcodec cannot be imported" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--decode", "nvdec"), "no way to decode 'nvdec'"),
        (("--decode", "torchcodec", "--rate", "10"), "--decode torchcodec is for videos"),
        (
            ("--decode", "torchcodec", "--on-error", "conceal"),
            "--on-error conceal needs to be told",
        ),
    ],
)
def test_a_decoder_that_makes_no_sense_there_is_refused_as_usage(
    extract, clip, tmp_path, options, words
):
    code, _, err = extract(clip, *MEANS, *options)
    assert code == 2
    assert words in err
    assert not (tmp_path / "out").exists()
