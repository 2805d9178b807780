"""What each flag of `headrace run` becomes; what decodes; folders of videos."""

import json
import re
from dataclasses import replace
from inspect import signature

import pytest
import typer

from cli.kit import FAST, recorded
from decode.backends import needs_torchcodec
from decode.gpus import needs_no_gpu
from headrace.cli import run as run_command
from headrace.cli.run_values import live_options, run_options
from headrace.models.compute import LARGEST, Compute
from headrace.runs.live.options import LiveOptions
from headrace.runs.options import (
    ComputeOptions,
    ExecutionOptions,
    InputOptions,
    OutputOptions,
    RunOptions,
)
from headrace.testing.synth import SynthClip, write_clip

PLAIN = ComputeOptions()


FLAGS = {name: flag.default for name, flag in signature(run_command.run).parameters.items()}


def options_of(**typed: object) -> RunOptions:
    """Return what the flags become, the others as they are by default."""
    return run_options({**FLAGS, "sources": ["a.mp4"], **typed})


def test_flags_default_to_what_the_library_defaults_to():
    source = InputOptions(sources=("a.mp4",))
    assert options_of() == RunOptions(input=source)
    assert live_options(options_of(), FLAGS) == LiveOptions(input=source)


@pytest.mark.parametrize(
    ("typed", "changed"),
    [
        ({"model_name": "resnet50"}, {"model_name": "resnet50"}),
        ({"batch_size": "8"}, {"batch_size": 8}),
        ({"prep_level": "complex"}, {"prep_level": "complex"}),
        ({"device": "cpu"}, {}),
        ({"device": "cuda"}, {"device": "cuda"}),
        ({"infer_on_gpu": True}, {"device": "cuda"}),
        ({"infer_on_gpu": True, "device": "cuda"}, {"device": "cuda"}),
        ({"threads": 2}, {"threads": 2}),
        ({"prep_on_gpu": True}, {"execution": {"prep_on_gpu": True}}),
        ({"core_bind": "0-3"}, {"execution": {"core_bind": "0-3"}}),
        ({"enable_compile": True}, {"execution": {"compile": True}}),
        ({"use_amp": True}, {"execution": {"amp": True}}),
        ({"split_point": "a:b"}, {"execution": {"split_point": "a:b"}}),
        ({"batch_size": "auto"}, {"batch_size": LARGEST, "execution": {"fit_batch": True}}),
    ],
)
def test_a_flag_alone_changes_what_is_computed_and_how(typed, changed):
    execution = ExecutionOptions(**changed.pop("execution", {}))
    assert options_of(**typed).compute == replace(PLAIN, execution=execution, **changed)


def test_flags_alone_change_what_is_read_and_where_results_go():
    read = options_of(max_steps=3, stride=2).input
    assert read == InputOptions(sources=("a.mp4",), max_steps=3, stride=2)
    named = options_of(sources=None, input_path=["b.mp4", "c.mp4"])
    assert named.input.sources == ("b.mp4", "c.mp4")
    output = options_of(predictions="parquet", top_k=5, video=False).output
    assert output == OutputOptions(predictions="parquet", top_k=5, video=False)


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ({"infer_on_gpu": True, "device": "cpu"}, "--infer-on-gpu"),
        ({"input_path": ["b.mp4"]}, "--input-path"),
        ({"sources": None}, "SOURCE"),
    ],
)
def test_flags_that_contradict_each_other_are_errors_of_usage(typed, hint):
    with pytest.raises(typer.BadParameter) as caught:
        options_of(**typed)
    assert caught.value.param_hint == f"'{hint}'"


@pytest.mark.parametrize(
    ("device", "execution", "expected"),
    [
        ("cpu", {}, Compute()),
        ("cpu", {"amp": True}, Compute(precision="bfloat16")),
        ("cuda", {"amp": True}, Compute(device="cuda", precision="float16")),
        (
            "cuda",
            {"amp": True, "split_point": "features.3"},
            Compute(device="cuda", precision="bfloat16", split_layer="features.3"),
        ),
    ],
)
def test_the_precision_is_one_that_all_devices_of_the_model_have(device, execution, expected):
    compute = ComputeOptions(device=device, execution=ExecutionOptions(**execution))
    assert compute.compute() == expected


def test_a_folder_is_a_source_and_all_of_its_videos_are_run(call, tmp_path):
    (tmp_path / "in").mkdir()
    for name, count in (("a", 4), ("b", 3)):
        write_clip(tmp_path / "in" / name, SynthClip(num_frames=count, size=(64, 96)))
    words = ("--input-path", tmp_path / "in", "--batch-size", 3, "--max-steps", 3, "--json")
    code, out, err = call("run", *words, *FAST, "--out", tmp_path / "out")
    assert (code, err, json.loads(out)["steps"]["input"]) == (0, "", [0, 0, 1])


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
def test_the_session_and_the_report_say_what_decoded(call, tmp_path, way, recorded_as, note):
    good, out = write_clip(tmp_path / "good", SynthClip(num_frames=30)), tmp_path / "out"
    code, said, err = call("run", good, *FAST, "--batch-size", 8, "--decode", way, "--out", out)
    assert (code, err) == (0, "")
    assert re.search(rf"^  decode +{recorded_as}$", said, re.MULTILINE)
    session = recorded(out)
    assert session["provenance"]["configuration"]["decode"] == recorded_as
    assert recorded_as in (out / "report.html").read_text()
    assert re.match(note, "".join(session["notes"]))
    assert not note or "decoded by cpu: " in said
