"""Every pair of options of `headrace run`: the run follows both, or refuses."""

import json
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from cli.kit import pairwise
from headrace.runs.model_setup import precision_notes
from headrace.runs.run_options import ComputeOptions, ExecutionOptions
from headrace.runtime.processor_affinity import available_cores
from headrace.testing.synth import SynthClip
from runs.kit import predictions

ONE_CORE = str(min(available_cores()))
FRAMES = 5
LAYERS = {"squeezenet1_1": "features.8", "mobilenet_v3_small": "features.3"}
SHARED = {
    "model_name": ("squeezenet1_1", "mobilenet_v3_small"),
    "is_named_so": (False, True),
    "prep_level": ("simple", "medium", "complex"),
    "core_bind": (None, "all", ONE_CORE),
    "enable_compile": (False, True),
    "use_amp": (False, True),
    "max_steps": (None, 1),
}
"""`is_named_so`: whether the source is given by `--input-path`. None and False omit a flag."""
OF_MODE = {
    "inference": {
        **{"batch_size": ("3", "16", "auto"), "is_split": (False, True), "stride": (1, 2)},
        **{"predictions": ("jsonl", "parquet"), "top_k": (1, 3), "video": (False, True)},
    },
    "retrain": {"batch_size": ("2", "3"), "checkpoint_gradients": (False, True)},
}
"""Flags of one mode only, or with other values."""
CASES = [
    {"mode": mode, **values}
    for mode, own in OF_MODE.items()
    for values in pairwise({**SHARED, **own})
]
SPLIT_AND_COMPILED = "cannot be compiled; leave out --enable-compile or --split-point"


@pytest.fixture
def clip(written):
    return written(SynthClip(num_frames=FRAMES, size=(64, 96)))


@pytest.fixture(autouse=True)
def compiling_nothing(monkeypatch):
    """Skip torch.compile, which would take minutes; tests of `prepare` cover it."""
    monkeypatch.setattr("torch.compile", lambda module: module)


def typed(clip: Path, values: dict[str, object]) -> list[object]:
    """Return the command line of the values."""
    words: list[object] = [*(["--input-path"] if values["is_named_so"] else []), clip]
    words += ["--weights", "none", "--mode", values["mode"]]
    for name in (
        *("model_name", "batch_size", "prep_level", "core_bind", "max_steps"),
        *("stride", "predictions", "top_k"),
    ):
        if values.get(name) is not None:
            words += [f"--{name.replace('_', '-')}", values[name]]
    # The default, one thread per core, makes threads wait for each other on a busy machine.
    words += ["--threads", 1] if values["core_bind"] == "all" else []
    for name in ("enable_compile", "use_amp"):
        words += [f"--{name.replace('_', '-')}"] if values[name] else []
    model = values["model_name"]
    if values.get("is_split"):
        words += ["--split-point", f"{model}:{LAYERS[model]}"]
    if values.get("checkpoint_gradients"):
        words += ["--checkpoint-gradients", "--train-from", "features.11"]
    return [*words, *(["--no-video"] if values.get("video") is False else [])]


def test_few_combinations_contain_every_pair_of_values():
    values = {"a": (1, 2, 3), "b": (True, False), "c": ("x", "y"), "d": (None, 0, 1, 2)}
    rows = pairwise(values)
    for first, second in combinations(values, 2):
        pairs = {(row[first], row[second]) for row in rows}
        assert pairs == set(product(values[first], values[second]))
    assert all(list(row) == list(values) for row in rows)
    assert len(rows) < 20


@pytest.mark.parametrize("values", CASES, ids=lambda values: "-".join(map(str, values.values())))
def test_every_pair_of_flags_takes_effect_or_is_refused(call, clip, tmp_path, values):
    out = tmp_path / "out"
    code, stdout, err = call("run", *typed(clip, values), "--out", out, "--json")
    if values.get("is_split") and values["enable_compile"]:
        assert (code, stdout) == (2, "")
        assert SPLIT_AND_COMPILED in err
        assert err.count("\n") == 1
        assert not out.exists()
        return
    assert (code, err) == (0, "")
    session = json.loads(stdout)
    configuration = session["provenance"]["configuration"]
    assert session["outcome"] == "complete"
    assert session["kind"] == ("run" if values["mode"] == "inference" else "retrain")
    assert (configuration["model"], configuration["prep_level"]) == (
        values["model_name"],
        values["prep_level"],
    )
    assert (configuration["compile"], configuration["amp"]) == (
        values["enable_compile"],
        values["use_amp"],
    )
    assert (configuration["core_bind"], configuration["max_steps"]) == (
        values["core_bind"],
        values["max_steps"],
    )
    assert (configuration["split_point"] is not None) == values.get("is_split", False)
    recomputes = values.get("checkpoint_gradients", False)
    assert configuration.get("checkpoint_gradients", False) == recomputes
    batch_size = configuration["batch_size"]
    assert values["batch_size"] in ("auto", str(batch_size))
    assert configuration["fit_batch"] == (values["batch_size"] == "auto")
    indices = range(0, FRAMES, values.get("stride", 1))
    steps = -(-len(indices) // batch_size)
    steps = min(values["max_steps"] or steps, steps)
    assert len(session["steps"]["frames"]) == steps
    assert ("compile" in [part["name"] for part in session["startup"]]) == values["enable_compile"]
    if values["mode"] == "inference":
        check_results(out, session, values, [*indices][: steps * batch_size])


def check_results(out: Path, session: dict[str, Any], values: dict[str, Any], indices: list[int]):
    """Compare the results of a run with its flags."""
    rows = predictions(out, values["predictions"])
    assert [row["index"] for row in rows] == indices
    assert {len(row.get("labels", [1])) for row in rows} == {values["top_k"]}
    assert (out / "annotated.mp4").exists() == values["video"]
    assert len(session["stages"]) == (6 if values["is_split"] else 4)
    batch_size = session["setup"]["batch_size"]
    assert batch_size == session["provenance"]["configuration"]["batch_size"]
    chosen = values["batch_size"] == "auto"
    notes = [f"batch size {batch_size} was chosen"] if chosen else []
    notes += (
        ["random weights"] if session["provenance"]["configuration"]["weights"] == "none" else []
    )
    notes += precision_notes(ComputeOptions(execution=ExecutionOptions(amp=values["use_amp"])))
    assert len(session["notes"]) == len(notes)
    assert all(map(str.startswith, session["notes"], notes))
