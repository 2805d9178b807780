"""examples/common.py: too few GPUs, interrupts, checkpoints, options."""

import re
import signal

import pytest

from examples.running import EXAMPLES, changed, ended, stopped
from headrace.testing.synth import SynthClip, write_clip
from loaders.cameras.clips import write_layout

pytestmark = pytest.mark.slow

ONE_GPU = "torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 1"
TWO_GPUS = "torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 2"


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Return the arguments of each example for an endless run."""
    folder = tmp_path_factory.mktemp("media")
    video = str(write_clip(folder / "video", SynthClip(num_frames=40, size=(64, 96))))
    layout = write_layout(folder / "cameras", {"a": 9})
    index = folder / "index.json"
    index.write_text(layout.to_json(folder))
    trained = (video, "--size", "32", "--batch-size", "1", "--epochs", "1000000")
    cameras = ("--index_file", str(index), "--size", "32", "48", "--epochs", "1000000")
    return {
        "train_frames.py": (*trained, "--save-every", "5", "--checkpoint", f"{folder / 'f.pt'}"),
        "train_clips.py": (*trained, "--save-every", "5", "--checkpoint", f"{folder / 'c.pt'}"),
        "camera_stream.py": cameras,
    }


@pytest.mark.parametrize(
    ("example", "when"), [("train_clips.py", "saved"), ("camera_stream.py", "rank 0")]
)
def test_an_interrupt_ends_an_example_silently_with_code_130(example, when, words):
    done = stopped(str(EXAMPLES / example), *words[example], when=when, by=signal.SIGINT)
    assert (done.returncode, done.stderr) == (130, "")


def test_each_process_uses_the_gpu_of_its_local_rank(tmp_path):
    script = tmp_path / "device.py"
    script.write_text(
        "import argparse\nfrom common import joined\n"
        "with joined(argparse.ArgumentParser()) as device:\n    print(device)\n"
    )
    chosen = f"{TWO_GPUS}; torch.cuda.set_device = lambda device: print('current:', device)"
    done = changed(chosen, str(script), LOCAL_RANK="1")
    assert done.stdout == "current: cuda:1\ncuda:1\n", done.stderr


NO_NVTX = """
def fail(*words):
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")
class Stub:
    rangePushA = rangePop = markA = staticmethod(fail)
torch.cuda.nvtx._nvtx = Stub()
"""
NO_GPU = "torch.cuda.is_available = lambda: False"
ALONE = (
    "process 1 of this machine needs its own GPU, and there are 1; "
    "give --nproc_per_node=1 or less\n"
)
UNMARKED = (
    "--nvtx needs a PyTorch build with CUDA: "
    "NVTX functions not installed. Are you sure you have a CUDA build?\n"
)
SECOND = {"LOCAL_RANK": "1", "RANK": "1"}


@pytest.mark.parametrize(
    ("example", "options", "change", "environment", "code", "message"),
    [
        ("train_frames.py", [], ONE_GPU, SECOND, 2, ALONE),
        ("camera_stream.py", [], ONE_GPU, SECOND, 2, ALONE),
        ("camera_stream.py", ["--nvtx"], NO_NVTX, {}, 2, UNMARKED),
        ("camera_stream.py", ["--decode_on_gpu"], NO_GPU, {}, 1, "decoding on GPU 0 was asked for"),
        ("train_frames.py", ["no/such.mp4"], "", {}, 1, "cannot open no/such.mp4"),
    ],
)
def test_an_error_ends_an_example_with_one_line(
    words, example, options, change, environment, code, message
):
    done = changed(change, str(EXAMPLES / example), *options, *words[example], **environment)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(f"{example}: error: {message}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("example", "option", "value"),
    [
        ("train_frames.py", "--save-every", "0"),
        ("camera_stream.py", "--num_workers", "0"),
        ("camera_stream.py", "--num_workers", "-1"),
    ],
)
def test_a_number_below_one_is_a_usage_error(example, option, value, words):
    done = ended(str(EXAMPLES / example), *words[example], option, value)
    assert done.returncode == 2
    assert done.stderr.endswith(
        f"{example}: error: argument {option}: must be at least 1, got {value}\n"
    )
    assert "Traceback" not in done.stderr


NO_CHECKPOINTS = """
import argparse, torch
from pathlib import Path
from common import Checkpoint, joined
class Loader:
    state_dict = dict
Path("text").write_text("{}"), Path("empty").touch(), torch.save([1], "list")
network = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(network.parameters())
for path in map(Path, ("text", "empty", "list", ".", "text/a")):
    kept = Checkpoint(path=path, every=1, network=network, optimizer=optimizer, loader=Loader())
    try:
        with joined(argparse.ArgumentParser("try")):
            kept.save(1) if path.parent.is_file() else kept.resume(torch.device("cpu"))
    except SystemExit as ended:
        print(ended.code)
"""


def test_a_file_that_is_not_a_checkpoint_is_named_and_unchanged(tmp_path):
    """A text file, an empty file, another file of torch, a folder, and a path below a file."""
    script = tmp_path / "read.py"
    script.write_text(NO_CHECKPOINTS)
    done = changed(f"import os; os.chdir({str(tmp_path)!r})", str(script))
    assert done.stdout.split() == ["1"] * 5, done.stderr
    lines = done.stderr.splitlines()
    assert [re.split(": ", line, maxsplit=2)[0] for line in lines] == ["try"] * 5
    assert "list is not a checkpoint of this example; give a checkpoint" in lines[2]
    assert "cannot write the checkpoint text/a" in lines[4]
    assert (tmp_path / "text").read_text() == "{}"


@pytest.mark.parametrize(
    "example", ["train_frames.py", "train_clips.py", "train_cameras.py", "camera_stream.py"]
)
def test_help_describes_each_option(example):
    done = ended(str(EXAMPLES / example), "--help", COLUMNS="400")
    assert done.returncode == 0
    options = re.split(r"\n  (?=-)", done.stdout)[1:]
    assert len(options) > 5
    assert [option for option in options if not re.search(r"\s{2,}\w", option)] == []
