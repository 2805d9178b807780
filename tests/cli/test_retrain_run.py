"""`headrace run --mode retrain`, as a user meets it."""

import json
import subprocess
import sys

import pytest

from runs.retrain.toy import write_labels, write_toys

FAST = (
    *("--mode", "retrain", "--model-name", "squeezenet1_1", "--weights", "none"),
    *("--batch-size", 8, "--threads", 1),
)


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """Return the folder of the toys and their labels."""
    folder = write_toys(tmp_path_factory.mktemp("toys"))
    write_labels(folder / "labels.csv")
    return folder


def test_a_head_is_trained_and_then_used(call, toys, tmp_path):
    code, out, err = call(
        *("run", toys, *FAST, "--labels", toys / "labels.csv", "--out", tmp_path, "--epochs", 2)
    )
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    assert "frames of 2 videos held out; naming the most frequent class would be" in words
    head = tmp_path / "head.pt"
    used = f"Use it: headrace run VIDEO --model-name squeezenet1_1 --weights {head}"
    assert out.splitlines()[-1] == used
    code, _, err = call(
        *("run", toys / "bars0.mp4", "--model-name", "squeezenet1_1", "--weights", head),
        *("--no-video", "--threads", 1, "--out", tmp_path / "used"),
    )
    assert (code, err.strip()) == (0, "")
    lines = (tmp_path / "used" / "predictions.jsonl").read_text().splitlines()
    assert {json.loads(line)["label"] for line in lines} <= {"bars", "waves"}


def test_json_is_all_that_is_printed(call, toys, tmp_path):
    code, out, err = call(
        *("run", toys / "bars0.mp4", *FAST, "--max-steps", 1, "--out", tmp_path, "--json")
    )
    assert (code, err) == (0, "")
    session = json.loads(out)
    assert (session["kind"], session["training"]["is_dummy"]) == ("retrain", True)
    assert session["outputs"][0] == "head.pt"


def test_a_training_computes_in_16_bits_on_the_cores_it_is_told(call, toys, tmp_path):
    code, out, err = call(
        *("run", "--input-path", toys / "bars0.mp4", *FAST, "--max-steps", 2, "--out", tmp_path),
        *("--use-amp", "--core-bind", "all", "--json"),
    )
    assert (code, err) == (0, "")
    configuration = json.loads(out)["provenance"]["configuration"]
    assert (configuration["amp"], configuration["core_bind"]) == (True, "all")
    assert (tmp_path / "head.pt").is_file()


def test_a_dry_run_says_what_would_be_learnt(call, toys, tmp_path):
    code, out, _ = call(
        *("run", toys, *FAST, "--labels", toys / "labels.csv"),
        *("--out", tmp_path / "out", "--dry-run"),
    )
    assert code == 0
    assert "2 held out, 2 classes (bars, waves); results would go to" in out.splitlines()[-1]
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--clip-len", 8), "--clip-len is for --mode inference; leave it out of --mode retrain"),
        (("--no-video",), "--no-video is for --mode inference"),
        (("--view", "web"), "--view is for --mode inference"),
        (("--batch-size", "auto"), "--batch-size auto is for --mode inference"),
        (("--split-point", "features.3"), "--split-point is for --mode inference"),
        (("--prep-on-gpu",), "--prep-on-gpu is for --mode inference"),
        (("--size", "large"), "--size is a height and a width, such as 256x456; got 'large'"),
        (("--size", "0x5"), "size is a height and a width of 1 to 8192 pixels each, got (0, 5)"),
        (("--labels", "none.csv"), "cannot read the file of labels none.csv: no such file"),
        (("--checkpoint-gradients",), "name the first layer to train with --train-from"),
        (("--learning-rate", -1), "learning_rate must be above 0, got -1"),
        (("--mode", "inference", "--epochs", 3), "--epochs is for --mode retrain"),
        (("--mode", "inference", "--labels", __file__), "--labels is for --mode retrain"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(call, toys, tmp_path, arguments, message):
    code, _, err = call("run", toys / "bars0.mp4", *FAST, "--out", tmp_path, *arguments)
    assert code == 2
    usage = ("Usage: ", "Try 'headrace run -h'")
    [line] = [line for line in err.splitlines() if line and not line.startswith(usage)]
    assert message in line
    assert not list(tmp_path.iterdir())


INTERRUPTED_IN_STEP_3 = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
from headrace.runs.retrain.trainer import Trainer
plain, steps = Trainer.step, []
def stopping(self, *given):
    steps.append(plain(self, *given))
    if len(steps) == 3:
        os.kill(os.getpid(), signal.SIGINT)
    return steps[-1]
Trainer.step = stopping
from headrace.cli import main
main(sys.argv[1:])
"""


def test_an_interrupt_leaves_the_head_as_it_then_is(toys, tmp_path):
    command = ["run", str(toys), *map(str, FAST), "--epochs", "99", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IN_STEP_3, *command, "--quiet"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    head = tmp_path / "head.pt"
    assert done.stderr == f"headrace: interrupted; the head as it was then is {head}\n"
    session = json.loads((tmp_path / "session.json").read_text())
    assert session["outcome"] == "interrupted"
    assert len(session["steps"]["loss"]) == 2
    assert head.is_file()
