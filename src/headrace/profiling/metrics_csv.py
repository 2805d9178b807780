"""The steps of a session as a table other tools can read."""

import csv
import io
import re
from datetime import timedelta
from typing import Final

from headrace.profiling.session import Session
from headrace.profiling.stage_records import ROLES, Role
from headrace.profiling.steps import Step
from headrace.runtime.clock import iso_text

_FIRST: Final[tuple[Role, ...]] = ("decode", "preprocess", "model")
"""Roles whose columns tools look for; they are there, if empty, in every table."""

_OF_LIVE: Final = ("source", "segment", "arrival_time", "capture_time")
_LONGEST_MODEL_NAME = 100


def metrics_columns(session: Session) -> tuple[str, ...]:
    """Return the header: first what tools look for, then the rest.

    Of a training, forward, backward and optimizer, which make up `exec`, follow at the end; of what
    came as it came, source, segment and wall times of arrival and of capture, which are empty where
    they are not known, and where a step holds frames of several sources. `Step`
    says what each holds; a name ends in `_latency_ms` because tools that read these files
    look for it, though a stage at full speed has a service time only.
    """
    others = [stage.role for stage in session.stages if stage.role not in _FIRST]
    return (
        "step",
        *(_column(role) for role in _FIRST),
        *("total_step_latency_ms", "loss", "first_index", "frames"),
        *dict.fromkeys(map(_column, others)),
        *("started_ms", "input"),
        *(f"{name}_latency_ms" for name in _parts(session)),
        *(_OF_LIVE if session.started is not None else ()),
    )


def metrics_csv(session: Session) -> str:
    """One line per step under `metrics_columns`, warm-up included, times to the microsecond.

    `loss` is empty at inference, and the time of a role that no stage plays.
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
    start, arrived_ms, late_ms = session.started, row.arrived_ms, row.capture_latency_ms
    if start is None or arrived_ms is None or row.segment is None:
        return {}
    moments_ms = {"arrival_time": arrived_ms}
    if late_ms is not None:
        moments_ms["capture_time"] = row.ended_ms - late_ms
    return {
        "source": session.sources[row.input].name,
        "segment": str(row.segment),
        **{name: iso_text(start + timedelta(milliseconds=ms)) for name, ms in moments_ms.items()},
    }


def _parts(session: Session) -> tuple[str, ...]:
    """Return the parts of a training step that share a role, and so a column, with others."""
    if session.kind != "retrain":
        return ()
    roles = [stage.role for stage in session.stages]
    return tuple(stage.name for stage in session.stages if roles.count(stage.role) > 1)


def _column(role: Role) -> str:
    return f"{ROLES[role].column}_latency_ms"


def metrics_file_name(model: str, process_id: int) -> str:
    """`M_{model}_P_{process_id}_metrics.csv`; what no file system takes becomes an underscore.

    >>> metrics_file_name("hub/resnet50:layer3", 4711)
    'M_hub_resnet50_layer3_P_4711_metrics.csv'
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", model).strip("._")[:_LONGEST_MODEL_NAME]
    return f"M_{safe or 'model'}_P_{process_id}_metrics.csv"
