"""What a training shows besides times: its loss, and how often the head is right."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import plotly.graph_objects as go

from headrace.profiling.number_format import count, counted, decimal, percent
from headrace.profiling.run_records import TrainingRecord
from headrace.profiling.session import Session
from headrace.report.drawing import MARK, PLAIN, Chart, draw
from headrace.report.total import Total

_POINTS: Final = 2_000
"""More points than a chart can show only slow it down."""
_SMOOTHED: Final = 20
"""Part of the steps that a point of the smoothed curve is the mean of."""


def training_totals(session: Session) -> Iterator[Total]:
    """Yield them; none where nothing was trained."""
    learnt = session.training
    if learnt is None:
        return
    losses = _losses(session)
    if losses:
        ends = max(1, len(losses) // 10)
        first, last = (sum(part) / ends for part in (losses[:ends], losses[-ends:]))
        yield Total(
            label="Loss",
            value=f"{decimal(first)} → {decimal(last)}",
            reading=f"mean of the first and the last {counted(ends, 'step')}; guessing among "
            f"{len(learnt.classes)} classes costs {decimal(math.log(len(learnt.classes)))}",
        )
    yield _accuracy(session)
    yield Total(
        label="Trained",
        value=counted(learnt.trained_parameters, "weight"),
        reading=f"of {count(session.setup.parameters or learnt.trained_parameters)}, on "
        f"{_frames(session, learnt)} of {counted(learnt.videos, 'video')}",
    )


def _frames(session: Session, learnt: TrainingRecord) -> str:
    """Return how many frames were trained on: fewer than an epoch has, where it ended early."""
    trained = sum(session.steps.frames)
    all_frames = counted(learnt.frames, "frame")
    return all_frames if trained >= learnt.frames else f"{count(trained)} of {all_frames}"


def loss_chart(session: Session) -> Chart | None:
    """Return the loss over the steps; None where there is none."""
    losses = _losses(session)
    if len(losses) < 2:
        return None
    width = max(1, len(losses) // _SMOOTHED)
    every = -(-len(losses) // _POINTS)
    steps = [
        step
        for step, loss in zip(session.steps.step, session.steps.loss, strict=True)
        if loss is not None and math.isfinite(loss)
    ]
    points = go.Scatter(
        name="step",
        x=steps[::every],
        y=[round(loss, 5) for loss in losses[::every]],
        mode="markers",
        marker={"color": PLAIN, "size": 4},
        hovertemplate="%{y:.4f}",
    )
    smoothed = go.Scatter(
        name=f"mean of {counted(width, 'step')}",
        x=steps[width - 1 :: every],
        y=[round(mean, 5) for mean in _moving_means(losses, width)[::every]],
        mode="lines",
        line={"color": MARK, "width": 1.8},
        hovertemplate="%{y:.4f}",
    )
    figure = draw([points, smoothed] if width > 1 else [points], height=280, hovermode="x unified")
    figure.update_xaxes(title_text="step")
    figure.update_yaxes(title_text="loss", rangemode="tozero")
    return Chart(
        name="loss",
        title="Loss over the steps",
        reading="Cross-entropy of each batch, before it was learnt from. Falling: something is "
        "learnt of these frames; whether it holds for others, the accuracy tells.",
        figure=figure,
    )


def _losses(session: Session) -> list[float]:
    return [loss for loss in session.steps.loss if loss is not None and math.isfinite(loss)]


def _accuracy(session: Session) -> Total:
    learnt = session.training
    assert learnt is not None
    found = learnt.accuracy
    if found is None:
        return Total(
            label="Accuracy", value="not measured", reading=learnt.not_measured or "not known why"
        )
    return Total(
        label="Accuracy",
        value=percent(found.right / found.frames),
        reading=f"of {counted(found.frames, 'frame')} of "
        f"{counted(learnt.held_out_videos, 'video')} held out; naming the most frequent class "
        f"would be {percent(found.most_frequent / found.frames)}",
    )


def _moving_means(values: Sequence[float], width: int) -> list[float]:
    means, total = [], 0.0
    for place, value in enumerate(values):
        total += value - (values[place - width] if place >= width else 0.0)
        if place >= width - 1:
            means.append(total / width)
    return means
