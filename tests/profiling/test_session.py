"""A session is a value that survives its file, and a bad file says what is wrong with it."""

import json
import math
from pathlib import Path

import pytest
from pydantic import ValidationError

from headrace.errors import ConfigError
from headrace.profiling.record import metrics_columns
from headrace.profiling.session import QueueRecord, Session, StageRecord
from headrace.profiling.steps import Step, Steps
from headrace.runtime.distribution import Distribution
from headrace.runtime.stage import StageStatistics
from headrace.runtime.statistics import QueueStatistics
from report.recorded import record


def test_a_session_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    session = record(steps=20, configuration={"core_bind": "0-3", "scale": 0.5, "amp": True})
    session.save(tmp_path / "session.json")
    assert Session.load(tmp_path / "session.json") == session


def test_option_values_keep_their_types(tmp_path: Path) -> None:
    given = {"text": "1", "flag": True, "whole": 1, "part": 1.0, "nothing": None}
    record(steps=1, configuration=given).save(tmp_path / "session.json")
    found = Session.load(tmp_path / "session.json").provenance.configuration
    assert [(name, type(found[name]), found[name]) for name in given] == [
        (name, type(value), value) for name, value in given.items()
    ]


def test_a_loss_that_diverged_is_kept(tmp_path: Path) -> None:
    losses = (0.5, math.nan, math.inf, None)
    steps = record(steps=4).steps.model_copy(update={"loss": losses})
    record(steps=4).model_copy(update={"steps": steps}).save(tmp_path / "session.json")
    found = Session.load(tmp_path / "session.json").steps.loss
    assert str(found) == str(losses)


def test_an_hour_at_30_frames_per_second_in_batches_of_16_is_below_a_megabyte() -> None:
    session = record(steps=6750)
    assert len(session.model_dump_json()) < 1_000_000


def test_a_name_that_is_no_utf8_is_spelt_out(tmp_path: Path) -> None:
    session = record(steps=1, error="cannot open a\udcff.mp4")
    session.save(tmp_path / "session.json")
    assert Session.load(tmp_path / "session.json").error == r"cannot open a\udcff.mp4"


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "session.json"
    file.write_text("what was there before")
    record(steps=1).save(file)
    assert [path.name for path in tmp_path.iterdir()] == ["session.json"]
    assert Session.load(file).outcome == "complete"


def test_a_failed_save_keeps_what_was_there(tmp_path: Path) -> None:
    folder = tmp_path / "session.json"
    folder.mkdir()
    with pytest.raises(ConfigError, match=r"cannot write .*session.json: .*; give a folder"):
        record(steps=1).save(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["session.json"]


def test_saving_into_a_missing_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot write .*no such file"):
        record(steps=1).save(tmp_path / "missing" / "session.json")


def _text(**changes: object) -> str:
    return json.dumps({**json.loads(record(steps=1).model_dump_json()), **changes})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "damaged or cut off, not whole JSON; record it again"),
        (_text()[:-30], "damaged or cut off"),
        ("\x00\x01", "damaged or cut off"),
        (
            '{"version": 1, "headrace": "0.1.0"}',
            "version 1, this headrace reads version 2; read it",
        ),
        ("[1, 2]", "no headrace session; give the session.json of a run folder"),
        ('{"name": "x", "lockfileVersion": 3, "version": 7}', "no headrace session"),
        (_text(version=1, gpu_clocks=[]), "version 1, this headrace reads version 2; read it with"),
        (_text(version="soon"), "version 'soon', this headrace reads version 2"),
        (_text(outcome="fine"), "outcome: input should be 'complete', 'interrupted' or 'failed'"),
        (_text(wall_seconds=-1), "wall_seconds: .*greater than or equal to 0; the file was chang"),
        (_text(mood="good"), "mood: extra inputs are not permitted"),
        (_text(steps={"step": [0]}), "steps: .*one entry per step"),
    ],
)
def test_a_file_that_is_no_session_says_what_it_is(tmp_path: Path, text: str, found: str) -> None:
    file = tmp_path / "session.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"(?s)^cannot read .*session.json: .*{found}"):
        Session.load(file)


def test_a_missing_file_says_which_file_to_give(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file .*give the session.json of a run folder"):
        Session.load(tmp_path / "session.json")


def test_the_layout_does_not_change_unnoticed() -> None:
    """A file of this version must stay readable: change the version with the layout."""
    fields = set(json.loads(record(steps=1).model_dump_json()))
    assert fields == {
        *("version", "kind", "provenance", "setup", "startup", "others_cpu_share", "alternatives"),
        *("usage", "training", "workers", "started"),
        *(
            "inputs",
            "items",
            "pace",
            "outcome",
            "error",
            "wall_seconds",
            "warmup_steps",
            "steps",
            "stages",
        ),
        *("queues", "decode", "lost", "notes", "outputs", "sources", "events", "loader"),
    }


def test_a_live_record_from_before_wall_times_were_kept_still_opens(tmp_path: Path) -> None:
    """And makes the table it made then."""
    old = json.loads(record(steps=2).model_copy(update={"kind": "live"}).model_dump_json())
    del old["started"], old["steps"]["segment"]
    (tmp_path / "session.json").write_text(json.dumps(old))
    session = Session.load(tmp_path / "session.json")
    assert "arrival_time" not in metrics_columns(session)
    assert [row.segment for row in session.steps.rows()] == [None, None]


def test_a_session_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        record(steps=1).outcome = "failed"  # type: ignore[misc]


def test_every_field_says_what_it_means_where_its_name_does_not() -> None:
    schema = Session.model_json_schema()
    described = {name for name, field in schema["properties"].items() if "description" in field}
    assert {"provenance", "pace", "wall_seconds", "warmup_steps", "outputs"} <= described


def test_steps_come_back_out_as_they_went_in() -> None:
    rows = list(record(steps=5).steps.rows())
    assert list(Steps.of(rows).rows()) == rows
    assert len(Steps.of(rows)) == 5


def test_columns_of_different_lengths_cannot_be_built() -> None:
    with pytest.raises(ValidationError, match="one entry per step"):
        Steps(step=(0, 1), first_index=(0,))


def test_service_time_leaves_waits_out() -> None:
    step = Step(
        **{"step": 0, "first_index": 0, "frames": 4, "started_ms": 5.0, "total_ms": 100.0},
        work_ms={"decode": 1.0, "preprocess": 2.0, "model": 4.0, "sink": 8.0},
    )
    assert step.service_ms == 15.0


def test_records_take_over_what_the_runtime_counted() -> None:
    stage = StageStatistics(
        **{"name": "model", "workers": 2, "items": 3},
        **{"busy_seconds": 1.0, "starved_seconds": 2.0, "blocked_seconds": 3.0},
    )
    assert StageRecord.of(stage, "model", moved_bytes=7, moved_to="cpu").model_dump() == {
        **{"name": "model", "role": "model", "workers": 2, "items": 3, "dropped": {}},
        **{"busy_seconds": 1.0, "starved_seconds": 2.0, "blocked_seconds": 3.0, "moved_bytes": 7},
        "moved_to": "cpu",
    }
    queue = QueueStatistics(
        **{"name": "decode", "capacity": 4, "puts": 9, "gets": 8, "elapsed_seconds": 7.0},
        **{"mean_occupancy": 0.25, "depth": 1, "max_occupancy": 0.5},
        **{"starved_seconds": 1.0, "blocked_seconds": 2.0},
        wait_ms=Distribution.of([1.0, *[3.0] * 89]),
    )
    found = QueueRecord.of(queue, feeds="model")
    assert (found.name, found.feeds, found.occupancy_mean) == ("decode", "model", 0.25)
    assert (found.wait_ms_p50, found.wait_ms_p95) == (3.0, 3.0)


def test_a_stage_has_any_name_and_one_of_the_roles() -> None:
    stage = StageStatistics(
        **{"name": "decoder", "workers": 1, "items": 0},
        **{"busy_seconds": 0.0, "starved_seconds": 0.0, "blocked_seconds": 0.0},
    )
    with pytest.raises(ValidationError, match="'decode', 'preprocess', 'transfer'"):
        StageRecord.of(stage, "decoder")
    assert StageRecord.of(stage, "decode").name == "decoder"
