"""What a report says of a training: its loss, its accuracy, what took the time."""

import math
from typing import Any

import pytest

from headrace.profiling.findings.training import training
from headrace.profiling.findings.verdict import find
from headrace.profiling.flow import StageRecord
from headrace.profiling.metrics import Metrics
from headrace.profiling.provenance import Gpu
from headrace.profiling.session import Session
from headrace.profiling.steps import Step, Steps
from headrace.profiling.training import Accuracy, TrainingRecord
from headrace.report.charts import charts
from headrace.report.text import render_text
from headrace.report.training import loss_chart, training_totals
from report.recorded import MACHINE, record

PARTS = {
    "data": "decode",
    "preprocess": "preprocess",
    "forward": "model",
    "backward": "model",
    "optimizer": "model",
}
LEARNT = TrainingRecord(
    classes=("cat", "dog"),
    videos=8,
    frames=200,
    held_out_videos=2,
    trained_parameters=2562,
    accuracy=Accuracy(frames=64, right=48, most_frequent=40),
    head="head.pt",
)


def trained(work_ms: tuple[float, ...], steps: int = 100, **changes: Any) -> Session:
    """Return the session of a training whose parts took so long; the loss halves in 10 steps."""
    length = sum(work_ms)
    rows = [
        Step(
            step=number,
            first_index=0,
            frames=16,
            started_ms=number * length,
            work_ms=dict(zip(PARTS, work_ms, strict=True)),
            total_ms=length,
            loss=math.log(2) * 0.5 ** (number / 10),
        )
        for number in range(steps)
    ]
    stages = tuple(
        StageRecord(
            **{"name": name, "role": role, "workers": 1, "items": steps},
            busy_seconds=each * steps / 1e3,
            starved_seconds=0,
            blocked_seconds=0,
        )
        for (name, role), each in zip(PARTS.items(), work_ms, strict=True)
    )
    return record(steps=steps, configuration=changes.pop("configuration", {})).model_copy(
        update={
            "kind": "retrain",
            "steps": Steps.of(rows),
            "stages": stages,
            "queues": (),
            "warmup_steps": 1,
            "training": LEARNT,
            **changes,
        }
    )


def rows_of(session: Session) -> dict[str, tuple[str, str]]:
    return {each.label: (each.value, each.reading) for each in training_totals(session)}


def test_the_totals_say_what_was_learnt_and_how_well():
    found = rows_of(trained((1, 1, 5, 2, 1)))
    assert found["Loss"] == (
        "0.518 → 0.001",
        "mean of the first and the last 10 steps; guessing among 2 classes costs 0.693",
    )
    assert found["Accuracy"] == (
        "75 %",
        "of 64 frames of 2 videos held out; naming the most frequent class would be 62 %",
    )
    assert found["Trained"][0] == "2,562 weights"
    assert "Accuracy" in render_text(trained((1, 1, 5, 2, 1)))


@pytest.mark.parametrize(
    ("steps", "frames"), [(2, "32 of 200 frames"), (13, "200 frames"), (100, "200 frames")]
)
def test_a_training_that_ended_early_says_how_many_frames_it_saw(steps, frames):
    _, reading = rows_of(trained((1, 1, 5, 2, 1), steps))["Trained"]
    assert reading.endswith(f", on {frames} of 8 videos")


def test_without_an_accuracy_the_totals_say_why():
    learnt = LEARNT.model_copy(update={"accuracy": None, "not_measured": "no video to spare"})
    assert rows_of(trained((1, 1, 5, 2, 1), training=learnt))["Accuracy"] == (
        *("not measured", "no video to spare"),
    )


def test_a_run_has_neither_loss_nor_accuracy():
    assert not list(training_totals(record()))
    assert loss_chart(record()) is None
    assert training(record()) is None


def test_the_loss_is_drawn_over_the_steps_and_smoothed():
    chart = loss_chart(trained((1, 1, 5, 2, 1)))
    points, mean = chart.figure.data
    assert (points.x[:2], points.y[0]) == ((0, 1), round(math.log(2), 5))
    assert (mean.name, mean.x[0], len(mean.x)) == ("mean of 5 steps", 4, 96)
    assert mean.y[0] == pytest.approx(sum(points.y[:5]) / 5, abs=1e-4)
    session = trained((1, 1, 5, 2, 1))
    drawn = {each.name: each for each in charts(session, Metrics.of(session))}
    assert list(drawn)[:3] == ["loss", "stage-use", "stage-times"]
    assert "They follow each other" in drawn["stage-times"].reading
    shades = [bar.opacity for bar in drawn["stage-times"].figure.data]
    assert shades == [1.0, 1.0, 1.0, 0.65, 0.35]


def test_a_loss_that_is_no_number_is_left_out_of_the_chart():
    session = trained((1, 1, 5, 2, 1), steps=20)
    losses = (*session.steps.loss[:-1], math.nan)
    session = session.model_copy(
        update={"steps": session.steps.model_copy(update={"loss": losses})}
    )
    assert len(loss_chart(session).figure.data[0].x) == 19


@pytest.mark.parametrize(
    ("work_ms", "changes", "headline", "change"),
    [
        (
            *((1, 1, 5, 2, 1), {"configuration": {"train_from": "layer4"}}),
            "Bound by the model: forward, backward and optimizer took 80 % of a step.",
            "A later --train-from: fewer layers have a backward",
        ),
        (
            *((8, 1, 1, 0, 0), {}),
            "Bound by decoding: waiting for batches took 80 % of a step.",
            "--size with fewer pixels",
        ),
        (
            *((1, 8, 1, 0, 0), {"configuration": {"size": "64,64"}}),
            "Bound by preprocessing: preprocessing took 80 % of a step.",
            "A smaller --size still",
        ),
        (
            *((1, 1, 5, 2, 1), {"configuration": {"checkpoint_gradients": True}}),
            "Bound by the model: forward, backward and optimizer took 80 % of a step.",
            "No --checkpoint-gradients",
        ),
    ],
)
def test_what_took_the_time_of_a_step_is_found(work_ms, changes, headline, change):
    (finding,) = find(trained(work_ms, **changes))
    assert finding.headline == headline
    assert finding.change.startswith(change)
    assert finding.evidence[0].startswith(f"Of the time of the loop: data {10 * work_ms[0]:.0f} %")


def test_a_training_on_the_cpu_of_a_machine_with_a_gpu_is_told_of_it():
    machine = MACHINE.model_copy(update={"gpus": (Gpu(name="H100", memory_bytes=1),)})
    session = trained((1, 1, 5, 2, 1))
    made = session.provenance.model_copy(update={"machine": machine})
    finding = training(session.model_copy(update={"provenance": made}))
    assert finding.change.startswith("--device cuda: this machine has a H100")
