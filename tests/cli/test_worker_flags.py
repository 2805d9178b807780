"""Every pair of flags of the worker, as it is typed: a run that obeys, or a refusal."""

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
FRAMES = 7
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
"""`is_named_so`: the source is given by `--input-path`. None and False leave a flag out."""
OF_MODE = {
    "inference": {
        **{"batch_size": ("3", "16", "auto"), "is_split": (False, True), "stride": (1, 2)},
        **{"predictions": ("jsonl", "parquet"), "top_k": (1, 3), "video": (False, True)},
    },
    "retrain": {"batch_size": ("2", "3"), "checkpoint_gradients": (False, True)},
}
"""Flags that one mode takes alone, or takes otherwise."""
CASES = [
    {"mode": mode, **values}
    for mode, own in OF_MODE.items()
    for values in pairwise({**SHARED, **own})
]
SPLIT_AND_COMPILED = "not compiled as one; leave out --enable-compile or --split-point"


@pytest.fixture
def clip(written):
    return written(SynthClip(num_frames=FRAMES, size=(64, 96)))


@pytest.fixture(autouse=True)
def compiling_nothing(monkeypatch):
    """What torch.compile itself does is tested with `prepare`; here it would take minutes."""
    monkeypatch.setattr("torch.compile", lambda module: module)


def typed(clip: Path, values: dict[str, object]) -> list[object]:
    """Return the command line of some values."""
    words: list[object] = [*(["--input-path"] if values["is_named_so"] else []), clip]
    words += ["--weights", "none", "--mode", values["mode"]]
    for name in (
        *("model_name", "batch_size", "prep_level", "core_bind", "max_steps"),
        *("stride", "predictions", "top_k"),
    ):
        if values.get(name) is not None:
            words += [f"--{name.replace('_', '-')}", values[name]]
    for name in ("enable_compile", "use_amp"):
        words += [f"--{name.replace('_', '-')}"] if values[name] else []
    model = values["model_name"]
    if values.get("is_split"):
        words += ["--split-point", f"{model}:{LAYERS[model]}"]
    if values.get("checkpoint_gradients"):
        words += ["--checkpoint-gradients", "--train-from", "features.11"]
    return [*words, *(["--no-video"] if values.get("video") is False else [])]


def test_every_pair_of_values_is_in_a_combination_and_there_are_few():
    values = {"a": (1, 2, 3), "b": (True, False), "c": ("x", "y"), "d": (None, 0, 1, 2)}
    found = pairwise(values)
    for one, other in combinations(values, 2):
        pairs = {(each[one], each[other]) for each in found}
        assert pairs == set(product(values[one], values[other]))
    assert all(list(each) == list(values) for each in found)
    assert len(found) < 20


@pytest.mark.parametrize("values", CASES, ids=lambda values: "-".join(map(str, values.values())))
def test_every_pair_of_flags_is_obeyed_or_refused(call, clip, tmp_path, values):
    out = tmp_path / "out"
    code, said, err = call("run", *typed(clip, values), "--out", out, "--json")
    if values.get("is_split") and values["enable_compile"]:
        assert (code, said) == (2, "")
        assert SPLIT_AND_COMPILED in err
        assert err.count("\n") == 1
        assert not out.exists()
        return
    assert (code, err) == (0, "")
    session = json.loads(said)
    made = session["provenance"]["configuration"]
    assert session["outcome"] == "complete"
    assert session["kind"] == ("run" if values["mode"] == "inference" else "retrain")
    assert (made["model"], made["prep_level"]) == (values["model_name"], values["prep_level"])
    assert (made["compile"], made["amp"]) == (values["enable_compile"], values["use_amp"])
    assert (made["core_bind"], made["max_steps"]) == (values["core_bind"], values["max_steps"])
    assert (made["split_point"] is not None) == values.get("is_split", False)
    recomputes = values.get("checkpoint_gradients", False)
    assert made.get("checkpoint_gradients", False) == recomputes
    batch_size = made["batch_size"]
    assert values["batch_size"] in ("auto", str(batch_size))
    assert made["fit_batch"] == (values["batch_size"] == "auto")
    indices = range(0, FRAMES, values.get("stride", 1))
    steps = -(-len(indices) // batch_size)
    steps = min(values["max_steps"] or steps, steps)
    assert len(session["steps"]["frames"]) == steps
    assert ("compile" in [part["name"] for part in session["startup"]]) == values["enable_compile"]
    if values["mode"] == "inference":
        check_results(out, session, values, [*indices][: steps * batch_size])


def check_results(out: Path, session: dict[str, Any], values: dict[str, Any], indices: list[int]):
    """Hold what a run of the model left against its flags."""
    rows = predictions(out, values["predictions"])
    assert [row["index"] for row in rows] == indices
    assert {len(row.get("labels", [1])) for row in rows} == {values["top_k"]}
    assert (out / "annotated.mp4").exists() == values["video"]
    assert len(session["stages"]) == (6 if values["is_split"] else 4)
    batch_size = session["setup"]["batch_size"]
    assert batch_size == session["provenance"]["configuration"]["batch_size"]
    chosen = values["batch_size"] == "auto"
    said = [f"batch size {batch_size} was chosen"] if chosen else []
    said += precision_notes(ComputeOptions(execution=ExecutionOptions(amp=values["use_amp"])))
    assert len(session["notes"]) == len(said)
    assert all(map(str.startswith, session["notes"], said))
