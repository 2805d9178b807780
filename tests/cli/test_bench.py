"""`headrace bench`: the output, record and page of each benchmark."""

import csv
import gzip
import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from cli.kit import python, recorded
from headrace.bench.benchmark import Benchmark
from headrace.bench.registry import BENCHMARKS
from headrace.bench.suite.suite_selection import read_record
from headrace.models.memory_table import MemoryTables
from headrace.testing.synth import SynthClip, write_clip

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

BY_NAME = {benchmark.name: benchmark for benchmark in BENCHMARKS}
KEPT = Path(__file__).parents[1] / "surface" / "recorded" / "bench"
"""A real record of each benchmark."""
ONCE = ("--seconds", 0.01, "--repeats", 1)
CLIPS = ("--clip-len", 2, "--size", "16x16")
CHOSEN = {
    "stages": (("--tensorboard", "logs"), {"tensorboard": Path("logs"), "repeats": 5}),
    "workers": (("--workers", "0,1", *CLIPS), {"workers": (0, 1), "clip_len": 2}),
    "prefetch": (("--prefetch-factor", "1,4", "--step-ms", 1), {"prefetch_factor": (1, 4)}),
    "sampling": (("--strategies", "naive", "--burst", 4), {"strategies": ("naive",), "burst": 4}),
    "cameras": (("--index-file", "i.json", "--ranks", "1,2"), {"ranks": (1, 2)}),
    "decode": ((*ONCE, "--access", "random"), {"access": "random", "seconds": 0.01}),
    "preprocess": (("--model-name", "resnet18"), {"model_name": "resnet18"}),
    "transfer": (("--size", "48x64"), {"size": (48, 64)}),
    "overlap": (("--threads", 2), {"threads": 2}),
    "stability": (("--queue-depths", 1), {"queue_depths": (1,)}),
    "scenarios": (("--seconds", 2), {"seconds": 2}),
    "live": (("--search", "streams", "--p95-ms", 20), {"search": "streams", "p95_ms": 20}),
    "compile": (("--batch-size", 3), {"batch_size": 3}),
    "amp": (("--threads", 1), {"threads": 1}),
    "split": (("--split-point", "features.5"), {"split_points": "features.5"}),
    "affinity": (("--prep-level", "simple"), {"prep_level": "simple"}),
    "memory": (("--sizes", "360p", "--max-memory", "1MiB"), {"sizes": ("360p",)}),
}
"""Benchmark -> arguments, and options of its configuration."""
WIDE = ("workers", "sampling")
"""Benchmarks whose tables are wider than 100 columns."""


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    """Video of 120 frames/s, so that one second has enough samples for a p95."""
    clip = SynthClip(num_frames=60, gop=12, frame_rate=Fraction(120))
    return write_clip(tmp_path_factory.mktemp("videos") / "good", clip)


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    clip = SynthClip(num_frames=12)
    return write_clip(tmp_path_factory.mktemp("videos") / "short", clip)


@pytest.fixture
def bench(printed, tmp_path):
    """Return a function: benchmark, arguments -> its output, record and page.

    The text output ends with the paths of the files; the JSON output is the record.
    """

    def run(name, *words):
        out = tmp_path / "out"
        said = printed("bench", name, *words, "--out", out)
        found = recorded(out, f"{name}.json")
        if "--json" in words:
            assert json.loads(said) == found
        else:
            files = {"Numbers": "json", "Table": "csv", "Chart": "html"}
            assert said.endswith(
                "".join(f"{held}: {out / name}.{kind}\n" for held, kind in files.items())
            )
            lines = [line for line in said.splitlines() if str(tmp_path) not in line]
            assert name in WIDE or max(map(len, lines)) <= 100
            assert max(len(line) for line in lines if "  " not in line.strip()) <= 80  # no table
        with (out / f"{name}.csv").open(encoding="utf-8", newline="") as table:
            assert all(line["row"] for line in csv.DictReader(table))
        page = (out / f"{name}.html").read_text()
        return said, BY_NAME[name].record.model_validate(found), page

    return run


def column(said, head, count):
    """Return the header and rows of the first column of a table, `count` values in all."""
    lines = [line.strip().partition("  ")[0] for line in said.splitlines()]
    start = next(k for k, line in enumerate(lines) if line.split() and line.split()[0] == head)
    return [lines[start].split()[0], *lines[start + 1 : start + count]]


@pytest.mark.parametrize("name", CHOSEN)
def test_options_reach_the_benchmark_and_its_table_record_and_page_are_written(
    bench, short, monkeypatch, name
):
    """Nothing is measured; tests/bench measures each benchmark."""
    seen = []

    def recorded(self, config, context):
        seen.append(config)
        return read_record(self, KEPT)

    monkeypatch.setattr(Benchmark, "run", recorded)
    words, options = CHOSEN[name]
    words = words if name == "cameras" else (short, *words)
    said, record, page = bench(name, *words)
    [config] = seen
    assert {option: getattr(config, option) for option in options} == options
    benchmark = BY_NAME[name]
    assert said.startswith("Machine: CPU ") is benchmark.names_machine
    expected = benchmark.page(record)
    assert expected.title.split()[0] in said
    assert column(said, expected.table.headers[0].split()[0], 2)[1] == expected.table.rows[0][0]
    assert all(f"chart-{chart.name}" in page for chart in expected.charts)
    assert bench(name, *words, "--json")[1] == record


def test_stages_prints_the_ratio_and_writes_a_trace(bench, short, tmp_path):
    logs = tmp_path / "logs"
    words = (*ONCE, "--batch-size", 2, "--tensorboard", logs)
    said, record, page = bench("stages", short, *words)
    assert re.search("Costliest|which stage is costliest", said)  # by the noise of the machine
    stages = ["decode", "preprocess", "model"]
    assert column(said, "stage", 4)[1:] == stages
    assert set(record.turns[0].work_ms) == set(stages)
    assert "chart-stages" in page
    packed = (tmp_path / "out" / "stages.trace.json.gz").read_bytes()
    names = {each["name"] for each in json.loads(gzip.decompress(packed))["traceEvents"]}
    assert {f"{stage} {k}" for stage in stages for k in range(11)} <= names
    assert "aten::conv2d" in names
    [log] = logs.iterdir()
    assert len(list(log.glob("events.out.tfevents.*"))) == 1
    assert (log / "headrace.pt.trace.json.gz").stat().st_size > 0


def test_overlap_times_three_variants_on_the_same_frames(bench, video, forked_ranks):
    said, record, page = bench("overlap", video, "--seconds", 0.1, "--repeats", 1)
    ways = ["sequential", "threads", "processes"]
    assert column(said, "variant", 4)[1:] == ways
    assert "sum ÷ max" in said
    assert [turn.way for turn in record.turns] == ways * 2
    assert [bool(turn.latency_ms) for turn in record.turns] == [False] * 3 + [True] * 3
    assert {len(turn.latency_ms) for turn in record.turns} == {0, record.frames}
    assert record.compared == record.frames + record.settling
    assert record.processes_seconds > 0
    assert "chart-latency" in page


def test_scenarios_measures_offline_and_realtime(bench, video):
    _, record, page = bench("scenarios", video, "--seconds", 2, "--repeats", 1, "--json")
    assert record.frame_rate == 120
    offline, live = record.turns
    assert (offline.mode, live.mode) == ("offline", "realtime")
    assert offline.latency_p50 is None
    assert offline.service_p50 > 0
    assert offline.dropped == {}, "offline, no frame is dropped"
    assert live.latency_p50 > 0
    assert "chart-frame-rate" in page


def test_live_reports_an_slo_that_cannot_be_met(bench, video):
    """No machine shows a frame within a microsecond."""
    said, record, page = bench("live", video, "--p95-ms", 0.001, "--seconds", 1, "--steps", 1)
    assert "Time: at most 1 step of 2.0 s" in said
    broken = "SLO missed at every load tried, down to 120 frames/s"
    assert broken in " ".join(said.split())
    [step] = record.steps
    assert (step.level, step.offered_fps) == (120, 120)
    assert step.broken_by
    assert "chart-drops" in page


STEADY = (
    *("--iterations", 20, "--batch-sizes", "1,2,99", "--queue-depths", 1, "--repeats", 1),
    *("--target", 1e-6),
)
"""The target CV of a millionth is out of reach on every machine."""


def test_stability_searches_until_its_time_limit(bench, short):
    said, record, page = bench("stability", short, *STEADY)
    assert said.startswith("Time: about 90.0 s (--max-seconds), more only if")
    assert [(turn.batch_size, turn.queue_depth) for turn in record.turns] == [(1, 1), (2, 1)]
    assert {len(turn.fps) for turn in record.turns} == {20}
    assert (record.left_out, record.run_depth) == ((99,), 2)
    assert "was not reached" in " ".join(said.split())
    assert all(f"chart-{name}" in page for name in ("iterations", "cv"))
    _, record, _ = bench("stability", short, *STEADY, "--max-seconds", 1e-6, "--json")
    assert (len(record.turns), record.unbegun) == (1, (2, 1))


SMALL = ("--sizes", "360p", "--batch-sizes", "1,2", "--precisions", "float32")


def test_memory_measures_sizes_and_the_video_and_stores_the_table(
    bench, short, tmp_path, forked_children
):
    said, record, page = bench("memory", short, *SMALL)
    assert said.splitlines()[1] == "Peak memory of mobilenet_v2 in MiB, of a process on the CPU"
    assert said.splitlines()[3].split() == ["precision", "×", "batch", "96x128", "360p"]
    assert [(c.size, c.batch_size, c.status) for c in record.cells] == [
        (size, batch, "measured") for size in ("96x128", "360p") for batch in (1, 2)
    ]
    assert all(cell.peak_bytes >= cell.base_bytes > 50 << 20 for cell in record.cells)
    assert record.not_kept is None
    [kept] = (tmp_path / "cache" / "headrace" / "memory").iterdir()
    assert len(json.loads(kept.read_text())["cells"]) == 4
    assert "chart-memory-float32" in page
    assert MemoryTables().folder.parent.name == "headrace"


def test_memory_needs_no_video_and_skips_batches_above_the_limit(bench, tmp_path, forked_children):
    _, record, _ = bench("memory", *SMALL, "--max-memory", "1MiB", "--json")
    assert (record.limit_bytes, record.not_kept) == (2**20, "no batch was measured")
    assert not (tmp_path / "cache" / "headrace" / "memory").exists()
    found = [(cell.batch_size, cell.status) for cell in record.cells]
    assert found == [(1, "over_limit"), (2, "over_limit")]


def test_help_of_every_benchmark_loads_no_pytorch():
    code = "\n".join(
        (
            "import sys",
            "from contextlib import suppress",
            "from headrace.cli import main",
            f"for name in {list(BY_NAME)}:",
            "    with suppress(SystemExit): main(['bench', name, '--help'])",
            "print('loaded:', *sys.modules)",
        )
    )
    shown, loaded = python(code).stdout.split("loaded:")
    assert not {"torch", "torchvision"} & set(loaded.split())
    for benchmark in BENCHMARKS:
        assert " ".join(benchmark.summary.split()) in " ".join(shown.split())
