"""`headrace run`: options, decoders, folders of videos, retraining."""

import json
import re
import sys
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature

import pytest

from cli.kit import FAST, SQUEEZENET, recorded
from decode.backends import needs_torchcodec
from decode.gpus import needs_no_gpu
from headrace.cli import run as run_command
from headrace.cli.run_flags import run_options
from headrace.models.compute import MAX_BATCH_SIZE, Compute
from headrace.runs.run_options import (
    ComputeOptions,
    ExecutionOptions,
    InputOptions,
    OutputOptions,
    RunOptions,
)
from headrace.testing.synth import SynthClip, write_clip
from runs.kit import predictions
from runs.retrain.toy import write_toys

PLAIN = ComputeOptions()


FLAGS = {name: flag.default for name, flag in signature(run_command.run).parameters.items()}


def options_of(**typed: object) -> RunOptions:
    """Return the options of these values, with defaults for the others."""
    return run_options({**FLAGS, "sources": ["a.mp4"], **typed})


def test_defaults_of_flags_equal_those_of_the_library():
    source = InputOptions(sources=("a.mp4",))
    assert options_of() == RunOptions(input=source)


COMPUTED = {"model_name": "resnet50", "prep_level": "complex", "device": "cuda", "threads": 2}
EXECUTED = {
    **{"prep_on_gpu": True, "core_bind": "0-3", "compile": True, "amp": True},
    "split_point": "a:b",
}
TYPED = [
    *(({name: value}, {name: value}) for name, value in COMPUTED.items()),
    *(({name: value}, {"execution": {name: value}}) for name, value in EXECUTED.items()),
    *(({"batch_size": "8"}, {"batch_size": 8}), ({"device": "cpu"}, {})),
    *(({"infer_on_gpu": True, **more}, {"device": "cuda"}) for more in ({}, {"device": "cuda"})),
    ({"batch_size": "auto"}, {"batch_size": MAX_BATCH_SIZE, "execution": {"fit_batch": True}}),
]


@pytest.mark.parametrize(("typed", "changed"), TYPED)
def test_a_flag_changes_its_compute_option(typed, changed):
    execution = ExecutionOptions(**changed.get("execution", {}))
    expected = replace(PLAIN, **{**changed, "execution": execution})
    assert options_of(**typed).compute == expected


def test_flags_change_their_input_and_output_options():
    read = options_of(max_steps=3, stride=2).input
    assert read == InputOptions(sources=("a.mp4",), max_steps=3, stride=2)
    named = options_of(sources=None, input_path=["b.mp4", "c.mp4"])
    assert named.input.sources == ("b.mp4", "c.mp4")
    output = options_of(predictions="parquet", top_k=5, video=False).output
    assert output == OutputOptions(predictions="parquet", top_k=5, video=False)


def test_the_precision_is_supported_by_all_devices_of_the_model():
    def computed(device, **execution):
        return ComputeOptions(device=device, execution=ExecutionOptions(**execution)).compute()

    assert computed("cpu") == Compute()
    assert computed("cpu", amp=True) == Compute(precision="bfloat16")
    assert computed("cuda", amp=True) == Compute(device="cuda", precision="float16")
    split = Compute(device="cuda", precision="bfloat16", split_layer="features.3")
    assert computed("cuda", amp=True, split_point="features.3") == split


def test_all_videos_of_a_folder_are_run(as_json, tmp_path):
    (tmp_path / "in").mkdir()
    for name, count in (("a", 4), ("b", 3)):
        write_clip(tmp_path / "in" / name, SynthClip(num_frames=count, size=(64, 96)))
    words = ("--input-path", tmp_path / "in", "--batch-size", 3, "--max-steps", 3)
    session = as_json("run", *words, *FAST, "--out", tmp_path / "out")
    assert session["steps"]["input"] == [0, 0, 1]


@pytest.mark.parametrize(
    ("way", "recorded_as", "note"),
    [
        pytest.param("torchcodec", "torchcodec:cpu", "", marks=needs_torchcodec),
        pytest.param(
            *("auto", "pyav:auto", r"decoded by cpu: \d+ jobs, 30 frames, .*; the CPU alone, as "),
            marks=needs_no_gpu,
        ),
    ],
)
def test_session_and_report_name_the_decoder(printed, tmp_path, way, recorded_as, note):
    good, out = write_clip(tmp_path / "good", SynthClip(num_frames=30)), tmp_path / "out"
    stdout = printed("run", good, *FAST, "--batch-size", 8, "--decode", way, "--out", out)
    assert re.search(rf"^  decode +{recorded_as}$", stdout, re.MULTILINE)
    session = recorded(out)
    assert session["provenance"]["configuration"]["decode"] == recorded_as
    assert recorded_as in (out / "report.html").read_text()
    assert any(re.match(note, each) for each in session["notes"])
    assert not note or "decoded by cpu: " in stdout


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """Return the folder of the toy videos and their labels."""
    return write_toys(tmp_path_factory.mktemp("toys"))


@pytest.fixture
def retrain(printed, tmp_path):
    """Return a function: arguments -> output of retraining into the folder `out`."""
    fast = ("--mode", "retrain", *SQUEEZENET, "--batch-size", 8, "--threads", 1)
    return lambda *words: printed("run", *words, *fast, "--out", tmp_path / "out")


def test_a_head_is_trained_and_then_used(printed, retrain, toys, tmp_path):
    out = retrain(toys, "--labels", toys / "labels.csv", "--epochs", 2)
    words = " ".join(out.split())
    assert "frames of 2 held-out videos; always predicting the most frequent class has" in words
    head = tmp_path / "out" / "head.pt"
    used = f"Use it: headrace run VIDEO --model-name squeezenet1_1 --weights {head}"
    assert out.splitlines()[-1] == used
    model = ("--model-name", "squeezenet1_1", "--weights", head, "--no-video", "--threads", 1)
    printed("run", toys / "bars0.mp4", *model, "--out", tmp_path / "used")
    assert {row["label"] for row in predictions(tmp_path / "used")} <= {"bars", "waves"}


def test_json_is_the_only_output_of_retraining_with_amp_and_core_bind(retrain, toys, tmp_path):
    flags = ("--use-amp", "--core-bind", "all", "--max-steps", 2, "--json")
    session = json.loads(retrain("--input-path", toys / "bars0.mp4", *flags))
    configuration = session["provenance"]["configuration"]
    assert (session["kind"], session["training"]["is_dummy"]) == ("retrain", True)
    assert session["outputs"][0] == "head.pt"
    assert (configuration["amp"], configuration["core_bind"]) == (True, "all")
    assert (tmp_path / "out" / "head.pt").is_file()


def test_a_dry_run_of_retraining_prints_its_plan(retrain, toys, tmp_path):
    out = retrain(toys, "--labels", toys / "labels.csv", "--dry-run")
    assert list((tmp_path / "out").iterdir()) == []
    assert (
        "2 held out, 2 classes (bars, waves); results would be written to" in out.splitlines()[-1]
    )


def test_pytorch_is_imported_inside_ending_at_once(call, tmp_path, monkeypatch):
    """test_refused.py checks that it is not imported earlier."""
    inside, imported = [], []

    @contextmanager
    def ending_at_once():
        inside.append(True)
        yield
        sys.exit(7)

    monkeypatch.setattr(run_command, "ending_at_once", ending_at_once)
    monkeypatch.setattr(
        run_command, "import_module", lambda name: imported.append((name, len(inside)))
    )
    clip = write_clip(tmp_path / "a.mp4", SynthClip(num_frames=2))
    assert call("run", clip, "--dry-run", "--quiet") == (7, "", "")
    modules = ("headrace.runs.file_run", "headrace.runs.live.live_session")
    assert imported == [(name, 1) for name in modules]
