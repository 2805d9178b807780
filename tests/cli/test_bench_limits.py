"""`headrace bench stability` and `memory`, as a user meets them."""

import json

import pytest

from headrace.bench.memory import MemoryRecord
from headrace.bench.stability import StabilityRecord
from headrace.models.memory_table import MemoryTables
from headrace.testing.synth import SynthClip, write_clip

QUICK = ("--iterations", 20, "--batch-sizes", "1,2,99", "--queue-depths", 1, "--repeats", 1)


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    return write_clip(folder / "good", SynthClip(num_frames=12, size=(48, 80)))


def test_stability_searches_and_leaves_numbers_and_page(call, video, tmp_path):
    """No CV is below a millionth, on whatever machine."""
    out = tmp_path / "out"
    code, said, err = call("bench", "stability", video, *QUICK, "--target", 1e-6, "--out", out)
    assert (code, err) == (0, "")
    assert said.startswith("Time: about 90.0 s (--max-seconds), more only if")
    assert max(len(line) for line in said.splitlines() if str(out) not in line) <= 100
    record = StabilityRecord.model_validate_json((out / "stability.json").read_text())
    assert [(turn.batch_size, turn.queue_depth) for turn in record.turns] == [(1, 1), (2, 1)]
    assert {len(turn.fps) for turn in record.turns} == {20}
    assert record.left_out == (99,)
    assert record.run_depth == 2
    assert "was not reached" in " ".join(said.split())
    page = (out / "stability.html").read_text()
    assert "chart-iterations" in page
    assert "chart-cv" in page


def test_stability_ends_where_there_is_no_time_left(call, video, tmp_path):
    options = (*QUICK, "--target", 1e-6, "--max-seconds", 1e-6)
    code, said, err = call("bench", "stability", video, *options, "--out", tmp_path, "--json")
    assert (code, err) == (0, "")
    record = StabilityRecord.model_validate_json(said)
    assert len(record.turns) == 1
    assert record.unbegun == (2, 1)


SMALL = ("--sizes", "360p", "--batch-sizes", "1,2", "--precisions", "float32")


def test_memory_measures_the_sizes_and_the_video_and_keeps_the_table(call, video, tmp_path):
    out = tmp_path / "out"
    code, said, err = call("bench", "memory", video, *SMALL, "--out", out)
    assert (code, err) == (0, "")
    lines = said.splitlines()
    assert lines[1] == "Peak memory of mobilenet_v2 in MiB, of a process on the CPU"
    assert lines[3].split() == ["precision", "×", "batch", "48x80", "360p"]
    record = MemoryRecord.model_validate_json((out / "memory.json").read_text())
    assert [(c.size, c.batch_size, c.status) for c in record.cells] == [
        (size, batch, "measured") for size in ("48x80", "360p") for batch in (1, 2)
    ]
    assert all(cell.peak_bytes >= cell.base_bytes > 50 << 20 for cell in record.cells)
    assert record.not_kept is None
    [kept] = (tmp_path / "cache" / "headrace" / "memory").iterdir()
    assert len(json.loads(kept.read_text())["cells"]) == 4
    assert "chart-memory-float32" in (out / "memory.html").read_text()
    assert MemoryTables().folder.parent.name == "headrace"


def test_memory_needs_no_video_and_runs_nothing_that_would_take_too_much(call, tmp_path):
    options = (*SMALL, "--max-memory", "1MiB")
    code, said, err = call("bench", "memory", *options, "--out", tmp_path / "out", "--json")
    assert (code, err) == (0, "")
    record = MemoryRecord.model_validate_json(said)
    assert record.limit_bytes == 2**20
    assert record.not_kept == "no batch was measured"
    assert not (tmp_path / "cache" / "headrace" / "memory").exists()
    assert [(c.batch_size, c.status) for c in record.cells] == [
        (1, "over_limit"),
        (2, "over_limit"),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("stability", "VIDEO", "VIDEO"), "bench stability takes one video, got 2"),
        (("stability", "VIDEO", "--batch-sizes", "99"), "has 12 frames; give smaller --batch-"),
        (("stability", "VIDEO", "--model-name", "resnet"), "resnet"),
        (("stability", "gone.mp4"), "gone.mp4"),
        (("memory", "--model-name", "resnet"), "resnet"),
        (("memory", "--weights", "gone.pth"), "gone.pth"),
        (("memory", "--sizes", "8K"), "sizes must be among 360p, 720p, 1080p, 4K; got 8K"),
        (("memory", "--max-memory", "much"), "a size must read like"),
        (("memory", "gone.mp4"), "gone.mp4"),
    ],
)
def test_what_cannot_be_done_is_one_line(call, video, tmp_path, arguments, said):
    typed = [video if each == "VIDEO" else each for each in arguments]
    code, _, err = call("bench", *typed, "--out", tmp_path / "out", "--json")
    assert code == (1 if "gone.mp4" in said else 2)
    assert said in err
    assert err.count("\n") == 1
