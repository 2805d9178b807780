"""What each flag of `headrace run` becomes; flags that contradict each other."""

import json
from dataclasses import replace
from inspect import signature

import pytest
import typer

from headrace.cli import run as run_command
from headrace.cli.run_values import run_options
from headrace.models.compute import LARGEST, Compute
from headrace.runs.options import (
    ComputeOptions,
    ExecutionOptions,
    InputOptions,
    OutputOptions,
    RunOptions,
)
from headrace.testing.synth import SynthClip, write_clip

FAST = ("--model-name", "squeezenet1_1", "--weights", "none", "--no-video")


def options_of(**typed: object) -> RunOptions:
    """Return what the flags become, the others as they are by default."""
    defaults = {name: flag.default for name, flag in signature(run_command.run).parameters.items()}
    return run_options({**defaults, "sources": ["a.mp4"], **typed})


PLAIN = ComputeOptions()


@pytest.mark.parametrize(
    ("typed", "compute"),
    [
        ({"model_name": "resnet50"}, replace(PLAIN, model_name="resnet50")),
        ({"batch_size": "8"}, replace(PLAIN, batch_size=8)),
        ({"prep_level": "complex"}, replace(PLAIN, prep_level="complex")),
        ({"device": "cpu"}, PLAIN),
        ({"device": "cuda"}, replace(PLAIN, device="cuda")),
        ({"infer_on_gpu": True}, replace(PLAIN, device="cuda")),
        ({"infer_on_gpu": True, "device": "cuda"}, replace(PLAIN, device="cuda")),
        ({"threads": 2}, replace(PLAIN, threads=2)),
    ],
)
def test_a_flag_alone_changes_what_is_computed(typed, compute):
    assert options_of(**typed).compute == compute


@pytest.mark.parametrize(
    ("typed", "changed"),
    [
        ({"prep_on_gpu": True}, {"prep_on_gpu": True}),
        ({"core_bind": "0-3"}, {"core_bind": "0-3"}),
        ({"enable_compile": True}, {"compile": True}),
        ({"use_amp": True}, {"amp": True}),
        ({"split_point": "resnet50:layer3"}, {"split_point": "resnet50:layer3"}),
    ],
)
def test_a_flag_alone_changes_how_it_is_computed(typed, changed):
    expected = replace(PLAIN, execution=ExecutionOptions(**changed))
    assert options_of(**typed).compute == expected


def test_a_batch_size_may_be_left_to_measuring():
    compute = options_of(batch_size="auto").compute
    assert (compute.batch_size, compute.execution.fit_batch) == (LARGEST, True)


def test_flags_alone_change_what_is_read_and_where_results_go():
    assert options_of(max_steps=3, stride=2).input == InputOptions(
        sources=("a.mp4",), max_steps=3, stride=2
    )
    assert options_of(sources=None, input_path=["b.mp4", "c.mp4"]).input.sources == (
        *("b.mp4", "c.mp4"),
    )
    found = options_of(predictions="parquet", top_k=5, video=False).output
    assert found == OutputOptions(predictions="parquet", top_k=5, video=False)


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
    ("compute", "expected"),
    [
        (PLAIN, Compute()),
        (ComputeOptions(execution=ExecutionOptions(amp=True)), Compute(precision="bfloat16")),
        (
            ComputeOptions(device="cuda", execution=ExecutionOptions(amp=True)),
            Compute(device="cuda", precision="float16"),
        ),
        (
            ComputeOptions(
                device="cuda", execution=ExecutionOptions(amp=True, split_point="features.3")
            ),
            Compute(device="cuda", precision="bfloat16", split_layer="features.3"),
        ),
    ],
)
def test_the_precision_is_one_that_all_devices_of_the_model_have(compute, expected):
    assert compute.compute() == expected


def test_a_folder_is_a_source_and_all_of_its_videos_are_run(call, tmp_path):
    (tmp_path / "in").mkdir()
    for name, count in (("a", 4), ("b", 3)):
        write_clip(tmp_path / "in" / name, SynthClip(num_frames=count, size=(64, 96)))
    code, out, err = call(
        *("run", "--input-path", tmp_path / "in", *FAST, "--batch-size", 3, "--json"),
        *("--core-bind", "all", "--use-amp", "--split-point", "features.8", "--top-k", 2),
        *("--predictions", "parquet", "--max-steps", 3, "--out", tmp_path / "out"),
    )
    assert (code, err) == (0, "")
    session = json.loads(out)
    assert session["steps"]["input"] == [0, 0, 1]
    assert session["outputs"][0] == "predictions.parquet"
    assert len(session["stages"]) == 6


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--batch-size", "auto", "--pace", "realtime"), 2, "--batch-size auto is for single"),
        (("--split-point", "features.3", "--view", "web"), 2, "--split-point is for single"),
        (("--prep-on-gpu", "--clip-len", 4, "--model-name", "r3d_18"), 2, "--prep-on-gpu is for"),
        (("--enable-compile", "--split-point", "features.3"), 2, "is not compiled as one; leave"),
        (("--infer-on-gpu", "--device", "cpu"), 2, "contradicts --device cpu"),
        (("--top-k", 0), 2, "--top-k"),
    ],
)
def test_what_does_not_go_together_is_said(call, tmp_path, arguments, code, message):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=2, size=(64, 96)))
    found, _, err = call("run", clip, *FAST, "--out", tmp_path / "out", *arguments)
    assert (found, message in " ".join(err.split())) == (code, True), err
    assert not (tmp_path / "out").exists()
