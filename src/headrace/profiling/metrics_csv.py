"""CSV table of the steps of a session, with the columns that other tools read."""

import csv
import io
import re
from datetime import timedelta
from typing import Final

from headrace.profiling.session import Session
from headrace.profiling.stage_records import ROLES, Role
from headrace.profiling.steps import Step
from headrace.runtime.clock import iso_text

_ALWAYS: Final[tuple[Role, ...]] = ("decode", "preprocess", "model")
"""Roles with a column in every table, because tools read it."""
_LIVE_COLUMNS: Final = ("source", "segment", "arrival_time", "capture_time")
_MAX_MODEL_NAME: Final = 100
"""Characters in a file name."""


def metrics_columns(session: Session) -> tuple[str, ...]:
    """Return the header: the columns that tools read, then the rest.

    A training ends with forward, backward and optimizer, the parts of `exec`. A live session ends
    with source, segment, and wall times of arrival and capture; they are empty if unknown and for
    steps with frames of several sources. `Step` documents the values. Names end in `_latency_ms`
    because tools expect it, although a stage at full speed only has a service time.
    """
    others = [stage.role for stage in session.stages if stage.role not in _ALWAYS]
    return (
        "step",
        *(_column(role) for role in _ALWAYS),
        *("total_step_latency_ms", "loss", "first_index", "frames"),
        *dict.fromkeys(map(_column, others)),
        *("started_ms", "input"),
        *(f"{name}_latency_ms" for name in _parts(session)),
        *(_LIVE_COLUMNS if session.started is not None else ()),
    )


def metrics_csv(session: Session) -> str:
    """Return one line per step under `metrics_columns`, warm-up included, times to the microsecond.

    `loss` is empty at inference; the time of a role is empty if no stage has the role.
    """
    table, parts = io.StringIO(), _parts(session)
    writer = csv.DictWriter(table, metrics_columns(session), restval="", lineterminator="\n")
    writer.writeheader()
    for row in session.steps.rows():
        work: dict[Role, float] = {}
        for stage in session.stages:
            work[stage.role] = work.get(stage.role, 0.0) + row.work_ms.get(stage.name, 0.0)
        writer.writerow(
            {
                "step": row.step,
                "total_step_latency_ms": f"{row.total_ms:.3f}",
                "loss": "" if row.loss is None else f"{row.loss:.6g}",
                "first_index": row.first_index,
                "frames": row.frames,
                "started_ms": f"{row.started_ms:.3f}",
                "input": row.input,
                **{_column(role): f"{milliseconds:.3f}" for role, milliseconds in work.items()},
                **{f"{name}_latency_ms": f"{row.work_ms[name]:.3f}" for name in parts},
                **_arrival(session, row),
            }
        )
    return table.getvalue()


def _arrival(session: Session, row: Step) -> dict[str, str]:
    start, arrived_ms, latency_ms = session.started, row.arrived_ms, row.capture_latency_ms
    if start is None or arrived_ms is None or row.segment is None:
        return {}
    times_ms = {"arrival_time": arrived_ms}
    if latency_ms is not None:
        times_ms["capture_time"] = row.ended_ms - latency_ms
    return {
        "source": session.sources[row.input].name,
        "segment": str(row.segment),
        **{name: iso_text(start + timedelta(milliseconds=ms)) for name, ms in times_ms.items()},
    }


def _parts(session: Session) -> tuple[str, ...]:
    """Return the parts of a training step that share the column of a role."""
    if session.kind != "retrain":
        return ()
    roles = [stage.role for stage in session.stages]
    return tuple(stage.name for stage in session.stages if roles.count(stage.role) > 1)


def _column(role: Role) -> str:
    return f"{ROLES[role].column}_latency_ms"


def metrics_file_name(model: str, process_id: int) -> str:
    """`M_{model}_P_{process_id}_metrics.csv`, unsafe characters replaced by underscores.

    >>> metrics_file_name("hub/resnet50:layer3", 4711)
    'M_hub_resnet50_layer3_P_4711_metrics.csv'
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", model).strip("._")[:_MAX_MODEL_NAME]
    return f"M_{safe or 'model'}_P_{process_id}_metrics.csv"
