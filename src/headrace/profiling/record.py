"""The steps of a session as a table other tools can read."""

import csv
import io
import re
from typing import Final

from headrace.profiling.session import Session

METRICS_COLUMNS: Final = (
    "step",
    "read_latency_ms",
    "prep_latency_ms",
    "exec_latency_ms",
    "total_step_latency_ms",
    "loss",
    "first_index",
    "frames",
    "sink_latency_ms",
    "started_ms",
)
"""The header, in this order. `Step` says what each holds; a name ends in `_latency_ms` because
tools that read these files look for it, though a stage at full speed has a service time only."""

_LONGEST_MODEL_NAME = 100


def metrics_csv(session: Session) -> str:
    """One line per step under `METRICS_COLUMNS`, warm-up included, times to the microsecond.

    `loss` is empty at inference.
    """
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(METRICS_COLUMNS)
    for row in session.steps.rows():
        writer.writerow(
            (
                row.step,
                f"{row.read_ms:.3f}",
                f"{row.prep_ms:.3f}",
                f"{row.exec_ms:.3f}",
                f"{row.total_ms:.3f}",
                "" if row.loss is None else f"{row.loss:.6g}",
                row.first_index,
                row.frames,
                f"{row.sink_ms:.3f}",
                f"{row.started_ms:.3f}",
            )
        )
    return table.getvalue()


def metrics_file_name(model: str, process_id: int) -> str:
    """`M_{model}_P_{process_id}_metrics.csv`; what no file system takes becomes an underscore.

    >>> metrics_file_name("hub/resnet50:layer3", 4711)
    'M_hub_resnet50_layer3_P_4711_metrics.csv'
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", model).strip("._")[:_LONGEST_MODEL_NAME]
    return f"M_{safe or 'model'}_P_{process_id}_metrics.csv"
