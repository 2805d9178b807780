"""`headrace bench sampling` as a user meets it."""

import json
from functools import partial

import pytest

from headrace.testing.synth import SynthClip, write_clip

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

FAST = (
    *("--batch-size", 4, "--size", 16, 16, "--memory", "256KiB", "--seconds", 0.01),
    *("--repeats", 1, "--workers", 1),
)


@pytest.fixture
def good(tmp_path):
    return write_clip(tmp_path / "good", SynthClip(num_frames=48, gop=12))


@pytest.fixture
def call(call):
    """Return a function: arguments of this command -> (exit code, stdout, stderr)."""
    return partial(call, "bench", "sampling")


def test_it_prints_machine_rows_and_verdict_and_leaves_numbers_and_chart(call, good, tmp_path):
    code, out, err = call(good, *FAST, "--burst", 4, "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("Machine: CPU ")
    assert lines[1] == "Images per second by strategy: random frames of 1 video, batches of 4"
    labels = [line.strip().split("  ")[0] for line in lines[3:11]]
    assert labels == [
        *("strategy", "baseline", "FrameDataset", "naive", "look-ahead 0.25 MiB"),
        *("look-ahead 0.062 MiB", "permutation 0.25 MiB", "bursts of 4"),
    ]
    assert "Fastest is " in out
    numbers, chart = tmp_path / "out" / "sampling.json", tmp_path / "out" / "sampling.html"
    assert out.endswith(f"Numbers: {numbers}\nChart: {chart}\n")
    assert json.loads(numbers.read_text())["compared"] == 4
    assert "chart-sampling" in chart.read_text()


def test_json_is_alone_on_stdout(call, good, tmp_path):
    code, out, err = call(good, *FAST, "--strategies", "naive", "--out", tmp_path, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads((tmp_path / "sampling.json").read_text())
    assert [each["name"] for each in json.loads(out)["strategies"]] == ["baseline", "naive"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--batch-size", 49), "a batch of 49 is larger than the set: the videos have 48 frames"),
        (("--memory", "2KiB"), "does not hold three batches"),
        (("--memory", "a lot"), "a size must read like"),
        (("--strategies", "naive,fast"), "got fast"),
        (("--seconds", 0), "seconds must be > 0"),
    ],
)
def test_what_cannot_be_done_is_one_line(call, good, tmp_path, arguments, said):
    code, _, err = call(good, *FAST, *arguments, "--out", tmp_path)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_a_missing_and_an_unreadable_video_are_named(call, good, tmp_path):
    short = tmp_path / "short.mp4"
    short.write_bytes(good.read_bytes()[:200])
    for path in (tmp_path / "gone.mp4", short):
        code, _, err = call(good, path, *FAST, "--out", tmp_path)
        assert code == 1
        assert path.name in err


def test_a_folder_that_cannot_be_written_is_said_before_measuring(call, good):
    code, out, err = call(good, *FAST, "--out", good / "inside")
    assert (code, out) == (2, "")
    assert f"cannot write into {good}/inside: " in err
