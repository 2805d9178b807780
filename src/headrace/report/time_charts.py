"""Charts over time: latency with events, and loss; the timeline of events."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import counted, short_names
from headrace.profiling.session import Session
from headrace.report.drawing import MARK, PLAIN, Chart, draw, label
from headrace.report.totals import finite_losses

_MAX_POINTS: Final = 2_000
"""Max points of a chart; more points only slow it down."""
_WINDOWS: Final = 20
"""Number of windows of the moving mean in all steps."""


@dataclass(frozen=True, kw_only=True)
class TimelineRow:
    """One row of the timeline of events."""

    at: str
    """Time since the start of the run: `3.2 s`."""
    what: str
    """Kind of the event: `joined`, `dropped`."""
    where: str
    """Short name of the source; empty: none."""
    words: str
    """Description, with the number of lost frames; empty: it equals `what`."""


def timeline(session: Session) -> Iterator[TimelineRow]:
    """Yield the events of a session, in order."""
    names = short_names([source.name for source in session.sources])
    for event in session.events:
        frames = f"{counted(event.frames, 'frame')}: " if event.frames else ""
        yield TimelineRow(
            at=f"{event.at_seconds:.1f} s",
            what=event.kind,
            where="" if event.source is None else names[event.source],
            words=frames + ("" if event.words == event.kind else event.words),
        )


def latency_chart(session: Session, metrics: Metrics) -> Chart | None:
    """Return the chart of latency over time, with the events; None at full speed."""
    if metrics.latency is None:
        return None
    rows = [step for step in session.steps.rows() if step.arrived_ms is not None]
    thinned = rows[:: max(1, -(-len(rows) // _MAX_POINTS))]
    ages = [round(step.ended_ms - (step.arrived_ms or 0.0), 2) for step in thinned]
    points = go.Scatter(
        name="latency",
        x=[round(step.ended_ms / 1e3, 3) for step in thinned],
        y=ages,
        mode="markers",
        marker={"color": PLAIN, "size": 4},
        hovertemplate="%{y:.0f} ms",
    )
    events = go.Scatter(
        name="events",
        x=[event.at_seconds for event in session.events],
        y=[0.0] * len(session.events),
        mode="markers",
        marker={"symbol": "triangle-up", "color": MARK, "size": 9},
        text=[label(f"{event.kind}: {event.words}") for event in session.events],
        hovertemplate="%{text}<extra></extra>",
    )
    figure = draw([points, events] if session.events else [points], height=280)
    figure.update_xaxes(title_text="seconds since the start")
    figure.update_yaxes(title_text="latency, ms", rangemode="tozero")
    return Chart(
        name="latency",
        title="Latency over time",
        reading=f"Age of the newest frame of each step at its output, from "
        f"{metrics.latency.base}. Flat is good; rising means that frames wait. Triangles: "
        "events, listed below.",
        figure=figure,
    )


def loss_chart(session: Session) -> Chart | None:
    """Return the chart of the loss over the steps; None: fewer than two finite losses."""
    losses = finite_losses(session)
    if len(losses) < 2:
        return None
    width = max(1, len(losses) // _WINDOWS)
    every = -(-len(losses) // _MAX_POINTS)
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
        reading="Cross-entropy of each batch, before the update. If it falls, the head learns "
        "these frames; the accuracy shows whether it generalizes.",
        figure=figure,
    )


def _moving_means(values: Sequence[float], width: int) -> list[float]:
    means, total = [], 0.0
    for index, value in enumerate(values):
        total += value - (values[index - width] if index >= width else 0.0)
        if index >= width - 1:
            means.append(total / width)
    return means
