"""`headrace run --mode retrain`, as a user meets it."""

import json

import pytest

from cli.kit import SQUEEZENET
from runs.retrain.toy import write_toys


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """Return the folder of the toys and their labels."""
    return write_toys(tmp_path_factory.mktemp("toys"))


@pytest.fixture
def retrain(call, tmp_path):
    """Return a function: words -> what a training into a folder `out` came to."""
    fast = ("--mode", "retrain", *SQUEEZENET, "--batch-size", 8, "--threads", 1)
    return lambda *words: call("run", *words, *fast, "--out", tmp_path / "out")


def test_a_head_is_trained_and_then_used(call, retrain, toys, tmp_path):
    code, out, err = retrain(toys, "--labels", toys / "labels.csv", "--epochs", 2)
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    assert "frames of 2 videos held out; naming the most frequent class would be" in words
    head = tmp_path / "out" / "head.pt"
    used = f"Use it: headrace run VIDEO --model-name squeezenet1_1 --weights {head}"
    assert out.splitlines()[-1] == used
    model = ("--model-name", "squeezenet1_1", "--weights", head, "--no-video", "--threads", 1)
    code, _, err = call("run", toys / "bars0.mp4", *model, "--out", tmp_path / "used")
    assert (code, err.strip()) == (0, "")
    lines = (tmp_path / "used" / "predictions.jsonl").read_text().splitlines()
    assert {json.loads(line)["label"] for line in lines} <= {"bars", "waves"}


def test_json_is_all_that_is_printed_of_a_training_in_16_bits_on_chosen_cores(
    retrain, toys, tmp_path
):
    flags = ("--use-amp", "--core-bind", "all", "--max-steps", 2, "--json")
    code, out, err = retrain("--input-path", toys / "bars0.mp4", *flags)
    assert (code, err) == (0, "")
    session = json.loads(out)
    configuration = session["provenance"]["configuration"]
    assert (session["kind"], session["training"]["is_dummy"]) == ("retrain", True)
    assert session["outputs"][0] == "head.pt"
    assert (configuration["amp"], configuration["core_bind"]) == (True, "all")
    assert (tmp_path / "out" / "head.pt").is_file()


def test_a_dry_run_says_what_would_be_learnt(retrain, toys, tmp_path):
    code, out, _ = retrain(toys, "--labels", toys / "labels.csv", "--dry-run")
    assert (code, list((tmp_path / "out").iterdir())) == (0, [])
    assert "2 held out, 2 classes (bars, waves); results would go to" in out.splitlines()[-1]
