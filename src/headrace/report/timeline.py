"""What happened to the sources and sinks of a session, as rows and as a chart of its latency."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import counted, short_names
from headrace.profiling.session import Session
from headrace.report.drawing import MARK, PLAIN, Chart, draw, label

_POINTS: Final = 2_000
"""More points than a chart can show only slow it down."""


@dataclass(frozen=True, kw_only=True)
class TimelineRow:
    """One row of the timeline."""

    at: str
    """Since the start of the run: `3.2 s`."""
    what: str
    """`joined`, `dropped`."""
    where: str
    """The source, in short; empty where it is none, or several."""
    words: str


def timeline(session: Session) -> Iterator[TimelineRow]:
    """Yield what happened, in order."""
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
    """Return latency over time with all that happened; None at full speed."""
    if metrics.latency is None:
        return None
    rows = [step for step in session.steps.rows() if step.arrived_ms is not None]
    thinned = rows[:: max(1, -(-len(rows) // _POINTS))]
    ages = [round(step.ended_ms - (step.arrived_ms or 0.0), 2) for step in thinned]
    points = go.Scatter(
        name="latency",
        x=[round(step.ended_ms / 1e3, 3) for step in thinned],
        y=ages,
        mode="markers",
        marker={"color": PLAIN, "size": 4},
        hovertemplate="%{y:.0f} ms",
    )
    happened = go.Scatter(
        name="what happened",
        x=[event.at_seconds for event in session.events],
        y=[0.0] * len(session.events),
        mode="markers",
        marker={"symbol": "triangle-up", "color": MARK, "size": 9},
        text=[label(f"{event.kind}: {event.words}") for event in session.events],
        hovertemplate="%{text}<extra></extra>",
    )
    figure = draw([points, happened] if session.events else [points], height=280)
    figure.update_xaxes(title_text="seconds since the start")
    figure.update_yaxes(title_text="latency, ms", rangemode="tozero")
    return Chart(
        name="latency",
        title="Latency over time",
        reading=f"Age of the newest frame of each step when it came out, from "
        f"{metrics.latency.base}. Flat is good; rising means that frames wait. Triangles: what "
        "happened, named in the timeline.",
        figure=figure,
    )
