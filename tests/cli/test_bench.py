"""`headrace bench workers` as a user meets it."""

import json
import subprocess
import sys
from functools import partial

import pytest

from headrace.bench.registry import EXPERIMENTS
from headrace.cli import main
from headrace.testing.synth import SynthClip, write_clip

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

FAST = ("--workers", "0,1", "--clip-len", 2, "--size", 16, 16, "--repeats", 1)


@pytest.fixture
def good(tmp_path):
    return write_clip(tmp_path / "good", SynthClip(num_frames=12))


@pytest.fixture
def call(call):
    """Return a function: arguments of this command -> (exit code, stdout, stderr)."""
    return partial(call, "bench", "workers")


def test_it_prints_rows_and_verdict_and_leaves_numbers_and_chart(call, good, tmp_path):
    code, out, _ = call(good, *FAST, "--out", tmp_path / "out")
    assert code == 0
    assert out.startswith("Frames per second by num_workers: 16 clips of 1 video\n")
    rows = [line.split() for line in out.splitlines()]
    assert rows[2][0] == "workers"
    assert [rows[3][0], rows[4][0]] == ["0", "1"]
    numbers, chart = tmp_path / "out" / "workers.json", tmp_path / "out" / "workers.html"
    assert out.endswith(f"Numbers: {numbers}\nChart: {chart}\n")
    assert json.loads(numbers.read_text())["frames"] == 32
    assert "chart-workers" in chart.read_text()


def test_what_is_no_list_of_numbers_is_a_usage_error(call, good):
    code, _, err = call(good, "--workers", "one,2")
    assert code == 2
    assert "numbers with commas between them, got 'one,2'" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--clip-len", 99), "the video has 12: 6 are possible"),
        (("--workers", "-1"), "workers must be numbers from 0 up"),
    ],
)
def test_what_cannot_be_done_is_one_line(call, good, tmp_path, arguments, said):
    code, out, err = call(good, *arguments, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_said_before_measuring(call, good):
    code, _, err = call(good, *FAST, "--out", good / "inside")
    assert code == 2
    assert f"cannot write into {good}/inside: " in err


def test_a_missing_video_is_named(call, tmp_path):
    code, _, err = call(tmp_path / "gone.mp4", *FAST, "--out", tmp_path / "out")
    assert code == 1
    assert "gone.mp4" in err


def test_help_of_every_experiment_is_read_off_its_configuration_without_pytorch():
    names = [each.name for each in EXPERIMENTS]
    code = "\n".join(
        (
            "import sys",
            "from contextlib import suppress",
            "from headrace.cli import main",
            f"for name in {names}:",
            "    with suppress(SystemExit): main(['bench', name, '--help'])",
            "print('loaded:', *sys.modules)",
        )
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shown, loaded = done.stdout.split("loaded:")
    assert not {"torch", "torchvision"} & set(loaded.split())
    for experiment in EXPERIMENTS:
        assert " ".join(experiment.summary.split()) in " ".join(shown.split())


def test_an_experiment_that_does_not_exist_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as end:
        main(["bench", "worker"])
    assert end.value.code == 2
    assert "Did you mean 'workers'?" in capsys.readouterr().err
