"""CSV table of the steps of a session."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from headrace.profiling.session import Session
from headrace.profiling.stage_records import ROLES, Role
from headrace.profiling.steps import Step
from headrace.runtime.clock import iso_text

_ALWAYS: Final[tuple[Role, ...]] = ("decode", "preprocess", "model")
"""Roles that have a column in every table, because other tools expect it."""
_MAX_MODEL_NAME: Final = 100
"""Max characters of the model in a file name."""
Value = Callable[[Session, Step], object]
"""Returns the value of a column for a step; None: empty."""


def _wall_time(session: Session, milliseconds: float) -> str:
    assert session.started is not None
    return iso_text(session.started + timedelta(milliseconds=milliseconds))


def _capture_time(session: Session, step: Step) -> str | None:
    if step.capture_latency_ms is None:
        return None
    return _wall_time(session, step.ended_ms - step.capture_latency_ms)


STEP_COLUMNS: Final[dict[str, Value]] = {
    "total_step_latency_ms": lambda session, step: f"{step.total_ms:.3f}",
    "loss": lambda session, step: None if step.loss is None else f"{step.loss:.6g}",
    "first_index": lambda session, step: step.first_index,
    "frames": lambda session, step: step.frames,
}
"""Columns of every table that are not of a role."""
LIVE_COLUMNS: Final[dict[str, Value]] = {
    "source": lambda session, step: session.sources[step.input].name,
    "segment": lambda session, step: step.segment,
    "arrival_time": lambda session, step: _wall_time(session, step.arrived_ms or 0.0),
    "capture_time": _capture_time,
}
"""Columns of a live session; empty for steps with frames of several sources."""


def metrics_columns(session: Session) -> dict[str, Value]:
    """Return column → its value for a step; columns that other tools read come first.

    The last columns of a training are forward, backward and optimizer, the parts of `exec`. The
    last columns of a live session are source, segment, and wall-clock times of arrival and capture;
    they are empty if unknown, and for steps with frames of several sources. `Step` documents the
    values. Names end in `_latency_ms` because other tools expect it, although a stage at full speed
    only has a service time.
    """
    stages = {role: [s.name for s in session.stages if s.role == role] for role in ROLES}
    always = {_name(role): _work(stages[role]) for role in _ALWAYS}
    others = {_name(stage.role): _work(stages[stage.role]) for stage in session.stages}
    parts = [stage.name for stage in session.stages if len(stages[stage.role]) > 1]
    return {
        "step": lambda session, step: step.step,
        **always,
        **STEP_COLUMNS,
        **{name: value for name, value in others.items() if name not in always},
        "started_ms": lambda session, step: f"{step.started_ms:.3f}",
        "input": lambda session, step: step.input,
        "queue_latency_ms": lambda session, step: f"{step.queued_ms:.3f}",
        **{f"{name}_latency_ms": _work([name]) for name in parts if session.kind == "retrain"},
        **{name: _one_source(value) for name, value in LIVE_COLUMNS.items() if session.started},
    }


def metrics_csv(session: Session) -> str:
    """Return a table with one line per step, warm-up included; columns: see `metrics_columns`.

    Times have a precision of one microsecond. `loss` is empty at inference, and the time of a role
    is empty if no stage has the role.
    """
    table, columns = io.StringIO(), metrics_columns(session)
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(columns)
    for step in session.steps.rows():
        writer.writerow(value(session, step) for value in columns.values())
    return table.getvalue()


def _name(role: Role) -> str:
    return f"{ROLES[role].column}_latency_ms"


def _work(stages: Sequence[str]) -> Value:
    """Return the column with the sum of the work of `stages`; empty without stages."""

    def value(session: Session, step: Step) -> str | None:
        return f"{sum(step.work_ms.get(name, 0.0) for name in stages):.3f}" if stages else None

    return value


def _one_source(value: Value) -> Value:
    """Return the column `value`, but empty for steps with frames of several sources."""

    def of_one_source(session: Session, step: Step) -> object:
        has_one_source = step.arrived_ms is not None and step.segment is not None
        return value(session, step) if has_one_source else None

    return of_one_source


def metrics_file_name(model: str, process_id: int) -> str:
    """`M_{model}_P_{process_id}_metrics.csv`; unsafe characters are replaced by underscores.

    >>> metrics_file_name("hub/resnet50:layer3", 4711)
    'M_hub_resnet50_layer3_P_4711_metrics.csv'
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", model).strip("._")[:_MAX_MODEL_NAME]
    return f"M_{safe or 'model'}_P_{process_id}_metrics.csv"
