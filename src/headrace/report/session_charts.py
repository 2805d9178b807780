"""Charts of a session."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from headrace.profiling.findings.utilization import is_corrected, stage_loads
from headrace.profiling.metrics import Metrics, PerSecond, latency_start
from headrace.profiling.number_format import counted, decimal, milliseconds, percent
from headrace.profiling.session import Session
from headrace.report.page import BLOCKED_COLOR, MARK, PLAIN, ROLE_COLORS, Chart, bar, draw, label
from headrace.report.step_chart import step_chart
from headrace.report.totals import finite_losses
from headrace.runtime.distribution import Distribution

_MIN_LABELLED: Final = {"busy": 0.14, "waits for a core": 0.5, "starved": 0.37, "blocked": 0.37}
"""Min share of a bar into which its label fits, also on a narrow page."""
_NOTABLE_WAIT: Final = 0.01
"""Min share of waits for a core, in any stage, for their bars to be shown."""
_MAX_BARS: Final = 240
"""Max bars of a chart over time; more bars only slow it down."""
_MAX_BINS: Final = 60
"""Max bins of a histogram."""
_OPACITIES: Final = (1.0, 0.65, 0.35)
"""Opacity of the stages of one role, which share a color."""
_SHARES: Final = {
    "retrain": "Share of the loop's time in each part of a step. The parts follow each other; "
    "shorten the longest. The part called data is the wait for a batch.",
    "loader": "Share of the time of the loop (step), and of the processes that load its batches "
    "(fetch, collate; without workers, the loop itself). Color: busy. Starved: the loop waits for "
    "data. Blocked: no batch is loaded.",
    "extract": "Share of the workers' time in each part of their work. In each worker the parts "
    "follow each other; shorten the longest.",
}
"""Kind of session → explanation of its shares."""
_ON_COLOR: Final = "#101418"
_STARVED_COLOR: Final = "rgba(128, 136, 148, 0.14)"
_MAX_POINTS: Final = 2_000
"""Max points of a chart; more points only slow it down."""
_WINDOWS: Final = 20
"""Number of windows of the moving mean in all steps."""


def charts(session: Session, metrics: Metrics) -> Iterator[Chart]:
    """Yield the charts for which the session has figures, in reading order."""
    if latency := latency_chart(session, metrics):
        yield latency
    if loss := loss_chart(session):
        yield loss
    if stage_loads(session):
        yield _utilization(session)
    if parts := step_chart(session.loader):
        yield parts
    if metrics.steps > 1:
        yield _stage_times(session)
    if metrics.per_second is not None and metrics.fps_mean is not None:
        unit = "samples" if session.loader else "frames"
        yield _frame_rate(metrics.per_second, metrics.fps_mean, unit)
    if metrics.service_ms is not None and metrics.steps > 1:
        yield _service_times(session, metrics.service_ms)
    if session.queues and len(session.steps):
        yield _queues(session)
    if session.decode.frames_decoded:
        yield _decoded(session)


def _utilization(session: Session) -> Chart:
    loads = stage_loads(session)[::-1]  # plotly draws the first category at the bottom
    names = [load.name for load in loads]
    stage_colors = [ROLE_COLORS[load.role] for load in loads]
    waits = [0.0 if is_corrected(session) else min(load.busy, load.core_wait) for load in loads]
    worked = [load.busy - wait for load, wait in zip(loads, waits, strict=True)]
    busy = [_share_bar(names, worked, "busy", stage_colors)]
    if max(waits) >= _NOTABLE_WAIT:
        busy.append(_share_bar(names, waits, "waits for a core", stage_colors))
        busy[-1].update(marker_opacity=_OPACITIES[-1])
    for bars in busy:
        bars.update(insidetextfont={"color": _ON_COLOR})
    starved = _share_bar(names, [load.starved for load in loads], "starved", _STARVED_COLOR)
    blocked = _share_bar(names, [load.blocked for load in loads], "blocked", BLOCKED_COLOR)
    figure = draw([*busy, starved, blocked], height=30 + 44 * len(names), barmode="stack")
    figure.update_layout(bargap=0.3, margin={"t": 0})
    _shares_axis(figure)
    return Chart(
        name="stage-use",
        title="Utilization of the stages",
        reading=_SHARES.get(
            session.kind,
            "Share of the time in which frames flowed; color: busy. The longest colored bar sets "
            "the pace: stages before it are blocked, stages after it are starved. Blank: idle, not "
            "started or finished; decoding threads also wait for their turn."
            + " Pale color: a thread could run, and no core was free."
            * (len(busy) > 1),
        ),
        figure=figure,
    )


def _stage_times(session: Session) -> Chart:
    steps, skip = session.steps, session.warmup_steps
    group = -(-(len(steps) - skip) // _MAX_BARS)
    first = list(steps.step[skip::group])
    roles = [stage.role for stage in session.stages]
    bars = [
        bar(
            name=stage.name,
            x=first,
            y=_means(steps.work_ms[stage.name][skip:], group),
            color=ROLE_COLORS[stage.role],
            # By the index among the stages of the same role.
            opacity=_OPACITIES[min(roles[:place].count(stage.role), len(_OPACITIES) - 1)],
        )
        for place, stage in enumerate(session.stages)
        if stage.name in steps.work_ms
    ]
    figure = draw(bars, height=300, barmode="stack", bargap=0, hovermode="x unified")
    figure.update_layout(xaxis_title_text="step", yaxis_title_text="ms per step")
    figure.update_traces(hovertemplate="%{y:.1f} ms", width=group, offset=0)
    averaged = f", each bar the mean of {group} steps" if group > 1 else ""
    overlap = "The stages overlap, so the height is work, not elapsed time"
    has_workers = session.loader is not None and session.loader.workers != 0
    if session.kind in _SHARES and not has_workers:
        overlap = "They follow each other, so the height is the time of a step"
    return Chart(
        name="stage-times",
        title="Work per step",
        reading=f"Milliseconds that each stage worked on a step{averaged}. {overlap}; the thickest "
        "band is the costliest stage.",
        figure=figure,
    )


def _frame_rate(per_second: PerSecond, mean: float, unit: str) -> Chart:
    counts = per_second.counts
    group = -(-len(counts) // _MAX_BARS)
    starts = range(0, len(counts), group)
    middles = [per_second.first_second + start + group / 2 for start in starts]
    ends = [per_second.first_second, per_second.first_second + len(counts)]
    lines = [
        _line(f"{unit}/s", middles, _means(counts, group), color=PLAIN, width=1.8),
        _line(f"mean {decimal(mean)}", ends, [mean, mean], color=MARK, width=1.4, dash="dash"),
    ]
    if group > 1:
        slowest = [min(counts[start : start + group]) for start in starts]
        lines.insert(1, _line("slowest second", middles, slowest, color=PLAIN, width=0.8))
    figure = draw(lines, height=260, hovermode="x unified")
    figure.update_layout(xaxis_title_text="seconds since the start", yaxis_title_text=f"{unit}/s")
    figure.update_yaxes(rangemode="tozero")
    averaged = f", averaged over {group} seconds" if group > 1 else ""
    return Chart(
        name="frame-rate",
        title=f"{unit.capitalize()} per second over time",
        reading=f"{unit.capitalize()} output in each whole second{averaged}. A flat line is "
        f"steady; a fall to 0 is a stall. The {unit} of one step are output together.",
        figure=figure,
    )


def _line(
    name: str,
    x: Sequence[float],
    y: Sequence[float],
    *,
    color: str,
    width: float,
    dash: str = "solid",
) -> go.Scatter:
    """Return a line with steps, because each count covers a whole second."""
    return go.Scatter(
        name=name,
        x=x,
        y=y,
        mode="lines",
        line={"color": color, "width": width, "dash": dash, "shape": "hvh"},
        hovertemplate="%{y:.1f}",
    )


def _service_times(session: Session, service: Distribution) -> Chart:
    samples = np.array([row.service_ms for row in session.steps.rows()][session.warmup_steps :])
    # Rice's rule: other rules fail on outliers.
    bins = min(_MAX_BINS, math.ceil(2 * math.cbrt(len(samples))))
    counts, edges = np.histogram(samples, bins=bins)
    bars = bar(
        name="steps",
        x=edges[:-1].tolist(),
        y=counts.tolist(),
        color=PLAIN,
        width=np.diff(edges).tolist(),
        offset=0,
        hovertemplate="%{y} steps from %{x:.1f} ms<extra></extra>",
        showlegend=False,
    )
    figure = draw([bars], height=260, bargap=0)
    figure.update_layout(xaxis_title_text="service time per step, ms", yaxis_title_text="steps")
    marks = (("p50", service.p50, "left"), ("p95", service.p95, "right"))
    for name, value, side in marks:
        if value is not None:
            figure.add_vline(
                x=value,
                line={"color": MARK, "width": 1.4, "dash": "dash"},
                annotation={"text": f"{name} {milliseconds(value)}", "yanchor": "bottom"},
                annotation_position=f"top {side}",
            )
    waits = " Waits are left out: a file at full speed has no latency."
    if session.kind == "retrain":
        waits = " The wait for a batch is included."
    elif session.loader is not None:
        waits = " Waits for data are left out; waits for a core are included."
    return Chart(
        name="service-times",
        title="Service time",
        reading=f"Work on a step, all stages together, over {counted(service.count, 'step')}. "
        f"Narrow is predictable.{waits}",
        figure=figure,
    )


def _queues(session: Session) -> Chart:
    queues = session.queues[::-1]
    names = [f"{label(queue.name)} → {queue.feeds or 'results'}" for queue in queues]
    means = [queue.occupancy_mean for queue in queues]
    mean = bar(name="mean", y=names, x=means, orientation="h", color=PLAIN)
    marker = {"symbol": "line-ns-open", "size": 16, "color": MARK, "line": {"width": 2}}
    peak = _points("max", [queue.occupancy_max for queue in queues], names, marker=marker)
    figure = draw([mean, peak], height=70 + 44 * len(names), bargap=0.45)
    _shares_axis(figure)
    return Chart(
        name="queues",
        title="Occupancy of the queues",
        reading="The queue before a bottleneck is full, the queue after it is empty.",
        figure=figure,
        is_wide=False,
    )


def _decoded(session: Session) -> Chart:
    decode = session.decode
    bars = bar(
        y=["delivered", "decoded"],
        x=[decode.frames_delivered, decode.frames_decoded],
        orientation="h",
        color=[PLAIN, ROLE_COLORS["decode"]],
        hovertemplate="%{x:,} frames<extra>%{y}</extra>",
        showlegend=False,
    )
    figure = draw([bars], height=70 + 44 * 2, bargap=0.45)
    figure.update_yaxes(showgrid=False)
    figure.update_xaxes(title_text="frames", rangemode="tozero", tickformat=",")
    return Chart(
        name="decoded",
        title="Frames decoded and delivered",
        reading="Frames that were decoded but not delivered were not requested.",
        figure=figure,
        is_wide=False,
    )


def _share_bar(names: list[str], shares: list[float], label: str, color: str | list[str]) -> go.Bar:
    """Return one bar per stage; its label is its share, if the label fits."""
    suffix = "" if label == "busy" else f" {label}"
    return bar(
        name=label,
        y=names,
        x=shares,
        text=[percent(share) + suffix if share >= _MIN_LABELLED[label] else "" for share in shares],
        textposition="inside",
        insidetextanchor="start",
        textangle=0,
        constraintext="none",
        orientation="h",
        color=color,
        showlegend=False,
    )


def _shares_axis(figure: go.Figure) -> None:
    """Set the axis from 0 to 100 %, and the hover text."""
    figure.update_xaxes(range=[0, 1.01], tickvals=[0, 0.25, 0.5, 0.75, 1], tickformat=".0%")
    figure.update_yaxes(showgrid=False)
    figure.update_traces(hovertemplate="%{y}: %{x:.1%}<extra>%{fullData.name}</extra>")


def _means(column: Sequence[float], group: int) -> list[float]:
    """Return the means of groups of values, rounded to 3 digits; the last group may be smaller."""
    starts = np.arange(0, len(column), group)
    sums = np.add.reduceat(np.asarray(column, dtype=np.float64), starts)
    sizes = np.diff(np.append(starts, len(column)))
    return [round(float(mean), 3) for mean in sums / sizes]


def latency_chart(session: Session, metrics: Metrics) -> Chart | None:
    """Return the chart of latency over time, with the events; None at full speed."""
    if metrics.latency is None:
        return None
    rows = [step for step in session.steps.rows() if step.arrived_ms is not None]
    thinned = rows[:: max(1, -(-len(rows) // _MAX_POINTS))]
    ages = [round(step.ended_ms - (step.arrived_ms or 0.0), 2) for step in thinned]
    ends = [round(step.ended_ms / 1e3, 3) for step in thinned]
    points = _points("latency", ends, ages, hovertemplate="%{y:.0f} ms")
    events = _points(
        "events",
        [event.at_seconds for event in session.events],
        [0.0] * len(session.events),
        marker={"symbol": "triangle-up", "color": MARK, "size": 9},
        text=[label(f"{event.kind}: {event.words}") for event in session.events],
        hovertemplate="%{text}<extra></extra>",
    )
    figure = draw([points, events] if session.events else [points], height=280)
    figure.update_layout(xaxis_title_text="seconds since the start", yaxis_title_text="latency, ms")
    figure.update_yaxes(rangemode="tozero")
    return Chart(
        name="latency",
        title="Latency over time",
        reading=f"Age of the newest frame of each step at its output, from "
        f"{latency_start(session)}. Flat is good; rising means that frames wait. Triangles: "
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
    rounded = [round(loss, 5) for loss in losses[::every]]
    points = _points("step", steps[::every], rounded, hovertemplate="%{y:.4f}")
    means = np.convolve(losses, np.ones(width) / width, "valid")[::every].round(5).tolist()
    smoothed = go.Scatter(
        name=f"mean of {counted(width, 'step')}",
        x=steps[width - 1 :: every],
        y=means,
        mode="lines",
        line={"color": MARK, "width": 1.8},
        hovertemplate="%{y:.4f}",
    )
    figure = draw([points, smoothed] if width > 1 else [points], height=280, hovermode="x unified")
    figure.update_layout(xaxis_title_text="step", yaxis_title_text="loss", yaxis_rangemode="tozero")
    return Chart(
        name="loss",
        title="Loss over the steps",
        reading="Cross-entropy of each batch, before the update. If it falls, the head learns "
        "these frames; the accuracy shows whether it generalizes.",
        figure=figure,
    )


def _points(name: str, x: Sequence[float], y: Sequence[Any], **options: Any) -> go.Scatter:
    marker = {"color": PLAIN, "size": 4}
    return go.Scatter(
        **{"name": name, "x": x, "y": y, "mode": "markers", "marker": marker, **options}
    )
