"""A session can be saved and loaded; its steps are a CSV; the latest steps take little memory."""

import csv
import io
import json
import math
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from headrace.errors import ConfigError
from headrace.profiling.input_records import SourceRecord
from headrace.profiling.metrics import (
    LIVE_COLUMNS,
    metrics_columns,
    metrics_csv,
    metrics_file_name,
)
from headrace.profiling.provenance import record_of
from headrace.profiling.session import LatestSteps, QueueRecord, Session, StageRecord, Steps
from headrace.runtime.distribution import Distribution
from headrace.runtime.queue import QueueStatistics
from headrace.runtime.stage import StageStatistics
from report.recorded import changed, record, step_of


def reload(session: Session, folder: Path) -> Session:
    """Return the saved and loaded session."""
    session.save(folder / "session.json")
    return Session.load(folder / "session.json")


def test_a_loaded_session_equals_the_saved_one(tmp_path):
    given = {"text": "1", "flag": True, "whole": 1, "part": 1.0, "nothing": None}
    session = record(steps=20, configuration=given)
    reloaded = reload(session, tmp_path)
    assert reloaded == session
    reloaded = {name: reloaded.provenance.configuration[name] for name in given}
    assert repr(reloaded) == repr(given), "options keep their types"


def test_a_loss_that_diverged_is_kept(tmp_path):
    losses = (0.5, math.nan, math.inf, None)
    steps = changed(record(steps=4).steps, loss=losses)
    assert str(reload(changed(record(steps=4), steps=steps), tmp_path).steps.loss) == str(losses)


def test_an_hour_at_30_frames_per_second_in_batches_of_16_is_below_a_megabyte():
    session = record(steps=6750)
    assert len(session.model_dump_json()) < 1_000_000


def test_bytes_that_are_not_utf8_are_escaped(tmp_path):
    session = record(steps=1, error="cannot open a\udcff.mp4")
    assert reload(session, tmp_path).error == r"cannot open a\udcff.mp4"


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path):
    (tmp_path / "session.json").write_text("what was there before")
    assert reload(record(steps=1), tmp_path).outcome == "complete"
    assert [path.name for path in tmp_path.iterdir()] == ["session.json"]


@pytest.mark.parametrize(
    ("place", "message"),
    [(".", r".*session\.json: .*; give a folder"), ("missing", ".*no such file")],
)
def test_a_failed_save_keeps_the_old_file_and_names_the_reason(tmp_path, place, message):
    (tmp_path / "session.json").mkdir()
    with pytest.raises(ConfigError, match=f"cannot write {message}"):
        record(steps=1).save(tmp_path / place / "session.json")
    assert [path.name for path in tmp_path.iterdir()] == ["session.json"]


def test_a_live_record_without_wall_times_can_be_loaded(tmp_path):
    """Its table has no columns of wall-clock times."""
    old = json.loads(record(steps=2, kind="live").model_dump_json())
    del old["started"], old["steps"]["segment"]
    (tmp_path / "session.json").write_text(json.dumps(old))
    session = Session.load(tmp_path / "session.json")
    assert "arrival_time" not in metrics_columns(session)
    assert [row.segment for row in session.steps.rows()] == [None, None]


def test_a_session_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        record(steps=1).outcome = "failed"  # type: ignore[misc]


def test_fields_have_descriptions_where_their_names_need_one():
    fields = Session.model_json_schema()["properties"]
    described = {name for name, field in fields.items() if "description" in field}
    assert {"provenance", "pace", "wall_seconds", "warmup_steps", "outputs"} <= described


def test_rows_of_steps_equal_the_given_rows():
    rows = list(record(steps=5).steps.rows())
    assert list(Steps.of(rows).rows()) == rows
    assert len(Steps.of(rows)) == 5


def test_columns_of_different_lengths_are_an_error():
    with pytest.raises(ValidationError, match="one entry per step"):
        Steps(step=(0, 1), first_index=(0,))


def test_service_time_does_not_include_waits():
    work_ms = {"decode": 1.0, "preprocess": 2.0, "model": 4.0, "sink": 8.0}
    assert step_of(started_ms=5.0, total_ms=100.0, work_ms=work_ms).service_ms == 15.0


STAGE = StageStatistics(
    **{"name": "decoder", "workers": 2, "items": 3},
    **{"busy_seconds": 1.0, "starved_seconds": 2.0, "blocked_seconds": 3.0},
    **{"cpu_seconds": 0.5, "core_wait_seconds": 0.25},
)


def test_records_have_the_counts_of_the_runtime():
    """A stage may have any name, but only one of the roles."""
    moved = {"moved_bytes": 7, "moved_to": "cpu"}
    assert record_of(StageRecord, STAGE, role="decode", **moved).model_dump() == {
        **{"name": "decoder", "role": "decode", "workers": 2, "items": 3, "dropped": {}},
        **{"busy_seconds": 1.0, "starved_seconds": 2.0, "blocked_seconds": 3.0, "moved_bytes": 7},
        **{"cpu_seconds": 0.5, "core_wait_seconds": 0.25, "moved_to": "cpu"},
    }
    with pytest.raises(ValidationError, match="'decode', 'preprocess', 'transfer'"):
        record_of(StageRecord, STAGE, role="decoder")
    queue = QueueStatistics(
        **{"name": "decode", "capacity": 4, "puts": 9, "gets": 8, "elapsed_seconds": 7.0},
        **{"mean_occupancy": 0.25, "depth": 1, "max_occupancy": 0.5},
        **{"starved_seconds": 1.0, "blocked_seconds": 2.0},
        wait_ms=Distribution.of([1.0, *[3.0] * 89]),
    )
    queue_record = QueueRecord.of(queue, feeds="model")
    assert (queue_record.name, queue_record.feeds) == ("decode", "model")
    assert queue_record.occupancy_mean == 0.25
    assert (queue_record.wait_ms_p50, queue_record.wait_ms_p95) == (3.0, 3.0)


def test_the_table_is_this_text():
    rows = [
        step_of(
            **{"frames": 16, "started_ms": 2100.0, "total_ms": 1045.0},
            work_ms={"decode": 69.5, "preprocess": 24.25, "model": 920.1234, "sink": 31.0},
        ),
        step_of(
            **{"number": 1, "first_index": 16, "frames": 4},
            **{"started_ms": 2169.5, "total_ms": 1000.0},
            work_ms={"decode": 17.0, "preprocess": 6.0, "model": 58.0, "sink": 8.0},
            loss=0.25,
        ),
    ]
    assert metrics_csv(changed(record(steps=0), steps=Steps.of(rows))) == (
        "step,read_latency_ms,prep_latency_ms,exec_latency_ms,total_step_latency_ms,loss,"
        "first_index,frames,sink_latency_ms,started_ms,input,queue_latency_ms\n"
        "0,69.500,24.250,920.123,1045.000,,0,16,31.000,2100.000,0,0.127\n"
        "1,17.000,6.000,58.000,1000.000,0.25,16,4,8.000,2169.500,0,911.000\n"
    )


def test_a_new_column_of_live_runs_is_one_entry(monkeypatch):
    monkeypatch.setitem(LIVE_COLUMNS, "latency_ms", lambda session, step: step.capture_latency_ms)
    rows = [
        step_of(segment=0, arrived_ms=1.0, capture_latency_ms=30.5),
        step_of(number=1),  # of several sources
    ]
    live = changed(
        record(steps=0, kind="live"),
        steps=Steps.of(rows),
        started=datetime(2026, 1, 1, tzinfo=UTC),
        sources=(SourceRecord(name="cam", arrived=2),),
    )
    table = list(csv.DictReader(io.StringIO(metrics_csv(live))))
    assert [row["latency_ms"] for row in table] == ["30.5", ""]
    assert "latency_ms" not in metrics_columns(record(steps=1))


@pytest.mark.parametrize("steps", [0, 50])
def test_every_step_is_one_line(steps):
    session = record(steps=steps)
    head, *lines = metrics_csv(session).splitlines()
    assert head == ",".join(metrics_columns(session))
    rows = list(csv.DictReader([head, *lines]))
    assert [int(row["step"]) for row in rows] == list(range(steps))
    assert sum(int(row["frames"]) for row in rows) == sum(session.steps.frames)


NAMES = {
    **{"resnet50": "resnet50", "hub/resnet50:layer3": "hub_resnet50_layer3"},
    **{"../../etc/passwd": "etc_passwd", "C:\\models\\my model.pt": "C_models_my_model.pt"},
    **{"模型": "model", "": "model", "x" * 500: "x" * 100},
}


def test_the_file_name_is_safe_for_any_model():
    for model, name in NAMES.items():
        assert metrics_file_name(model, 4711) == f"M_{name}_P_4711_metrics.csv"


def step(number, **fields):
    return step_of(
        **{"number": number, "input": number % 2, "first_index": 7 * number},
        **{"started_ms": 33.3 * number, "total_ms": 20.5},
        work_ms={"decode": 2.5, "model": 12.25 + number},
        **fields,
    )


def test_the_latest_steps_equal_the_given_steps():
    """Missing values stay missing, other values stay exact."""
    steps = [step(n, arrived_ms=n + 0.1) if n % 3 else step(n) for n in range(8)]
    steps.append(step(2**40, oldest_arrived_ms=1 / 3, capture_latency_ms=-0.5))
    latest = LatestSteps(5)
    assert list(latest) == []
    for row in steps:
        latest.append(row)
    assert list(latest) == steps[-5:]
    assert len(latest) == 5


def test_a_step_takes_less_than_200_bytes():
    latest = LatestSteps(10_000)
    tracemalloc.start()
    try:
        for number in range(10_000):
            latest.append(step(number))
        assert tracemalloc.get_traced_memory()[0] < 200 * 10_000
    finally:
        tracemalloc.stop()
