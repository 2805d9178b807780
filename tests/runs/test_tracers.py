"""Traces of runs: for Perfetto, NVTX and TensorBoard."""

import gzip
import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from headrace.profiling.trace import NvtxMarks
from headrace.runs.live.live_session import LiveRunner
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing.synth import SynthClip
from profiling.perfetto_engine import opened
from profiling.test_trace import Domain
from runs.kit import options, tiny_runner
from runs.live.fake_sources import FakeSource
from runs.tiny import tiny_classifier
from runtime.in_time import in_time

TRACED = {"trace": True, "trace_steps": 3}
LONG = {"trace": True, "trace_steps": 30, "batch_size": 1}
"""More steps than can be in flight: the model works while the trace is recorded."""


@pytest.fixture
def clip(written):
    return written(SynthClip(num_frames=48, gop=12))


@pytest.fixture
def runner(clip, tmp_path):
    """Return a function: options -> a run of a tiny model on 48 frames."""
    defaults = {"batch_size": 4, "video": False, "clock": SYSTEM_CLOCK}
    return lambda **values: tiny_runner(clip, tmp_path, **{**defaults, **values})


def events(folder: Path) -> list[dict]:
    return json.loads(gzip.decompress((folder / "trace.json.gz").read_bytes()))["traceEvents"]


def items_of(trace_events: list[dict], stage: str) -> list[int]:
    return sorted(
        e["args"]["item"] for e in trace_events if e.get("args", {}).get("stage") == stage
    )


def test_perfetto_shows_the_rows_work_and_arrows_of_a_run(runner, tmp_path, page):
    session = runner(**LONG).run()
    assert session.outcome == "complete"
    assert session.outputs == ("predictions.jsonl", "trace.json.gz")
    with opened(page, tmp_path / "trace.json.gz") as trace:
        rows = trace.query(
            "select thread.name as row, process.name as process, count(*) as ranges from slice"
            " join thread_track on slice.track_id = thread_track.id"
            " join thread using (utid) join process using (upid) group by utid"
        )
        ranges = {row["row"]: row["ranges"] for row in rows}
        assert {row["process"] for row in rows} == {f"headrace {session.provenance.pid}"}
        assert {"preprocess-0", "model-0", "sink-0", "model-0: PyTorch"} <= set(ranges)
        assert any(row.startswith("decode-") for row in ranges)
        arrows = trace.query(
            "select a.name as a, b.name as b from flow"
            " join slice a on flow.slice_out = a.id join slice b on flow.slice_in = b.id"
        )
        steps = range(1 + 30)
        assert {(arrow["a"], arrow["b"]) for arrow in arrows} == {
            pair
            for n in steps
            for pair in (
                (f"decode {n}", f"preprocess {n}"),
                (f"preprocess {n}", f"model {n}"),
                (f"model {n}", f"sink {n}"),
            )
        }
        work = trace.query(
            "select count(*) as n from slice join thread_track on slice.track_id = thread_track.id"
            " join thread using (utid) where thread.name = 'model-0: PyTorch'"
            " and slice.name like 'aten::%'"
        )
        assert work[0]["n"] > 0
        assert trace.query("select * from stats where severity = 'error' and value > 0") == []


def test_the_work_of_pytorch_is_inside_the_ranges_of_its_stage(runner, tmp_path):
    runner(**LONG).run()
    trace = events(tmp_path)
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    work = [e for e in trace if rows.get((e["pid"], e["tid"])) == "model-0: PyTorch" and "dur" in e]
    model = [e for e in trace if e.get("args", {}).get("stage") == "model"]
    tolerance_us = 1000  # the two clocks differ on a busy machine
    assert work
    for part in work:
        assert any(
            stage["ts"] - tolerance_us <= part["ts"]
            and part["ts"] + part["dur"] <= stage["ts"] + stage["dur"] + tolerance_us
            for stage in model
        ), part


@pytest.mark.parametrize(
    ("values", "stage", "items", "traced"),
    [
        (TRACED, "sink", None, ["steps 1 to 3 were traced, which slows them down"]),
        ({"max_steps": 2}, "sink", [0, 1], ["steps 1 to 1 were traced, which slows them down"]),
        ({"max_steps": 1}, "model", [0], []),
        ({"trace_steps": 1}, "sink", None, ["steps 1 to 1 were traced, which slows them down"]),
    ],
    ids=["some steps", "a run shorter than its trace", "a run of one step", "one step"],
)
def test_traced_steps_are_an_event_of_the_run(runner, tmp_path, values, stage, items, traced):
    session = runner(**{"trace": True, **values}).run()
    assert [(event.kind, event.source, event.words) for event in session.events] == [
        ("traced", None, words) for words in traced
    ]
    assert values is not TRACED or session.provenance.configuration["trace_steps"] == 3
    traced_items = items_of(events(tmp_path), stage)
    is_some = {0, 1} <= set(traced_items) < set(range(12))
    assert traced_items == items or (items is None and is_some)


def test_an_interrupt_leaves_a_complete_trace(runner, tmp_path):
    def interrupt(step):
        if step.step == 2:
            raise KeyboardInterrupt

    session = runner(trace=True).run(interrupt)
    assert session.outcome == "interrupted"
    assert {0, 1, 2} <= set(items_of(events(tmp_path), "sink"))
    assert not list(tmp_path.glob(".*"))


def test_a_trace_that_cannot_be_written_fails_the_run(runner, tmp_path):
    (tmp_path / "trace.json.gz").mkdir()
    session = runner(trace=True).run()
    assert session.outcome == "failed"
    assert session.error.startswith(f"cannot write {tmp_path}/trace.json.gz: is a directory")
    assert session.outputs == ("predictions.jsonl",)
    assert len(session.steps) == 12


def test_each_frame_of_a_live_run_has_an_arrow_to_its_result(tmp_path):
    source = FakeSource(count=40)
    values = {"overload": "keep-all", "batch_size": 4, "video": False, **TRACED}
    run_options = options(source.name, tmp_path, **values)
    runner = LiveRunner(options=run_options, sources=(source,), model=tiny_classifier())
    session = in_time(runner.run)
    assert "traced" in {event.kind for event in session.events}
    trace = events(tmp_path)
    ranges = {(e["tid"], e["ts"]): e["name"] for e in trace if e.get("cat") == "stage"}
    arrows: dict[int, list[str]] = {}
    for event in trace:
        if event["ph"] in "stf" and event.get("cat") == "item":
            arrows.setdefault(event["id"], []).append(ranges[event["tid"], event["ts"]])
    frames = sum(session.steps.frames[:4])
    assert sorted(arrows) == list(range(frames))
    assert {arrow[0] for arrow in arrows.values()} == {f"decode {n}" for n in range(frames)}
    ends = Counter(arrow[-1] for arrow in arrows.values())
    assert ends == {f"show {n}": count for n, count in enumerate(session.steps.frames[:4])}
    assert "predictions" in {e["args"]["stage"] for e in trace if e.get("cat") == "stage"}


def test_tensorboard_reads_the_log_and_the_trace_of_a_run(runner, tmp_path):
    logs = tmp_path / "logs"
    session = runner(trace=True, trace_steps=2, tensorboard=logs).run()
    (folder,) = logs.iterdir()
    assert folder.name == f"M_mobilenet_v2_P_{session.provenance.pid}"
    assert (folder / "headrace.pt.trace.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    log = EventAccumulator(str(folder)).Reload()
    assert [scalar.step for scalar in log.Scalars("stage_ms/model")] == list(range(12))
    assert {"queue_depth/decode", "queue_depth/model"} <= set(log.Tags()["scalars"])


def test_a_run_without_tracing_writes_no_trace_and_imports_no_package(
    runner, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "nvtx", None)
    session = runner().run()
    assert (session.outcome, session.events) == ("complete", ())
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.jsonl"]
    assert NvtxMarks.__module__ in sys.modules


def test_nvtx_has_a_range_for_every_stage_of_a_run(runner, monkeypatch):
    domain = Domain()
    monkeypatch.setattr("nvtx.get_domain", lambda name: domain)
    runner(nvtx=True).run()
    assert not any(domain.open.values())
    ended = {message for message, _ in domain.ended}
    for stage in ("decode", "preprocess", "model", "sink"):
        assert {f"{stage} {n}" for n in range(12)} <= ended, stage


def test_the_profiler_is_warmed_up_before_the_first_step(prepare, clip):
    parts = prepare(clip, trace=True).startup
    assert [part.name for part in parts] == ["profiler", "index", "model", "warm-up"]
