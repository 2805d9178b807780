"""The table of steps other tools read."""

import csv
import io

import pytest

from headrace.profiling.record import metrics_columns, metrics_csv, metrics_file_name
from headrace.profiling.steps import Step, Steps
from report.recorded import record

STEPS = Steps.of(
    [
        Step(
            **{"step": 0, "first_index": 0, "frames": 16, "started_ms": 2100.0, "total_ms": 1045.0},
            work_ms={"decode": 69.5, "preprocess": 24.25, "model": 920.1234, "sink": 31.0},
        ),
        Step(
            **{"step": 1, "first_index": 16, "frames": 4, "started_ms": 2169.5, "total_ms": 1000.0},
            work_ms={"decode": 17.0, "preprocess": 6.0, "model": 58.0, "sink": 8.0},
            loss=0.25,
        ),
    ]
)


def test_the_table_is_this_text() -> None:
    session = record(steps=0).model_copy(update={"steps": STEPS})
    assert metrics_csv(session) == (
        "step,read_latency_ms,prep_latency_ms,exec_latency_ms,total_step_latency_ms,loss,"
        "first_index,frames,sink_latency_ms,started_ms,input\n"
        "0,69.500,24.250,920.123,1045.000,,0,16,31.000,2100.000,0\n"
        "1,17.000,6.000,58.000,1000.000,0.25,16,4,8.000,2169.500,0\n"
    )


def test_a_run_without_steps_has_the_header_only() -> None:
    session = record(steps=0)
    assert metrics_csv(session) == ",".join(metrics_columns(session)) + "\n"


def test_every_step_is_one_line() -> None:
    session = record(steps=50)
    rows = list(csv.DictReader(io.StringIO(metrics_csv(session))))
    assert [int(row["step"]) for row in rows] == list(range(50))
    assert sum(int(row["frames"]) for row in rows) == sum(session.steps.frames)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("resnet50", "M_resnet50_P_4711_metrics.csv"),
        ("hub/resnet50:layer3", "M_hub_resnet50_layer3_P_4711_metrics.csv"),
        ("../../etc/passwd", "M_etc_passwd_P_4711_metrics.csv"),
        ("C:\\models\\my model.pt", "M_C_models_my_model.pt_P_4711_metrics.csv"),
        ("模型", "M_model_P_4711_metrics.csv"),
        ("", "M_model_P_4711_metrics.csv"),
        ("x" * 500, f"M_{'x' * 100}_P_4711_metrics.csv"),
    ],
)
def test_the_file_name_is_safe_for_any_model(model: str, name: str) -> None:
    assert metrics_file_name(model, 4711) == name
