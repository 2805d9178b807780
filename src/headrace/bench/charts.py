"""Charts of benchmarks: horizontal bars and lines of values with optional ranges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import plotly.graph_objects as go

from headrace.measuring.interleaved import MedianRange
from headrace.profiling.number_format import decimal
from headrace.report.page import MARK, PLAIN, Chart, bar, draw, label

COLORS: Final = (PLAIN, "#d9a253", "#5ea58c", "#9b7fc0", "#8a6fb0")
"""Colors of series, in order; limits use `MARK`."""
Value: TypeAlias = float | MedianRange | None
"""A range is drawn as its median with a line from min to max; None is not drawn. Empty series are
skipped."""
Charts: TypeAlias = tuple[Chart, ...]
Axis: TypeAlias = str | Mapping[str, Any]
"""Axis title, or its plotly options."""


def bars(
    names: Sequence[str],
    series: Mapping[str, Sequence[Value]],
    unit: str,
    *,
    name: str,
    title: str,
    reading: str,
    axis: str,
    is_stacked: bool = False,
    limit: tuple[str, float] | None = None,
) -> Chart:
    """Return a chart of horizontal bars, the first name on top.

    Args:
        names: Names of the bars.
        series: Legend → a value for each name.
        unit: Unit of the values.
        name: Name of the chart.
        title: Title of the chart.
        reading: Explanation; for ranges, a sentence on the spread is added.
        axis: Title of the names' axis.
        is_stacked: Whether bars of the series are stacked; else grouped.
        limit: Legend and value of a dashed line.
    """
    labels, traces = [label(text) for text in names], list[Any]()
    for (legend, values), color in zip(series.items(), COLORS, strict=False):
        known = [(offset, value) for offset, value in enumerate(values) if value is not None]
        if not known:
            continue
        trace = _bars(legend, known, color, has_text=not is_stacked)
        suffix = unit if legend == unit else f"{unit}, {legend}"
        trace.hovertemplate = [
            f"%{{x:.3~r}} {suffix}<extra>{labels[offset]}</extra>" for offset, _ in known
        ]
        traces.append(trace)
    if any(isinstance(value, MedianRange) for values in series.values() for value in values):
        reading += " Bars are medians; the lines span the slowest to the fastest repetition."
    offsets = list(range(len(labels)))
    if limit is not None:
        legend, value = limit
        traces.append(_dashed_line(legend, [value] * 2, [-0.5, len(labels) - 0.5]))
    figure = draw(
        traces,
        height=110 + len(labels) * (24 + 18 * (1 if is_stacked else len(series))),
        bargap=0.3,
        showlegend=len(traces) > 1,
        barmode="stack" if is_stacked else "group",
    )
    figure.update_xaxes(title_text=unit, rangemode="tozero")
    # Ticks by offset, because shortened names may be equal.
    figure.update_yaxes(title_text=axis, autorange="reversed", tickvals=offsets, ticktext=labels)
    return Chart(name=name, title=title, reading=reading, figure=figure, is_wide=False)


def _bars(
    legend: str, known: Sequence[tuple[int, float | MedianRange]], color: str, *, has_text: bool
) -> go.Bar:
    """Return the bars of one series at their offsets."""
    medians = [_median(value) for _, value in known]
    return bar(
        name=legend,
        x=medians,
        y=[offset for offset, _ in known],
        orientation="h",
        color=color,
        error_x=_error_bars([value for _, value in known], MARK),
        text=[f" {decimal(median)} " for median in medians] if has_text else None,
        textposition="auto",
        insidetextanchor="start",
        cliponaxis=False,
    )


@dataclass(frozen=True)
class Line:
    """Values along a horizontal axis."""

    name: str
    points: Sequence[tuple[float, Value]]
    """Position on the axis, and value."""
    color: str = PLAIN
    is_dotted: bool = False
    mark: str = ""
    """Plotly marker symbol, drawn in place of the line."""

    def trace(self, unit: str) -> go.Scatter:
        """Return the plotly trace of the values, which are in `unit`."""
        marker = {"size": 13, "symbol": self.mark, "line": {"width": 2.5}} if self.mark else {}
        return go.Scatter(
            name=self.name,
            x=[position for position, _ in self.points],
            y=[None if value is None else _median(value) for _, value in self.points],
            mode="markers" if self.mark else "lines+markers",
            marker={"size": 7, "color": self.color, **marker},
            line={"color": self.color, "width": 1.8, "dash": "dot" if self.is_dotted else "solid"},
            error_y=_error_bars([value for _, value in self.points], self.color),
            hovertemplate=f"%{{y:.3~r}} {unit}<extra>{self.name}, %{{x}}</extra>",
        )


def lines(
    drawn: Sequence[Line],
    *,
    name: str,
    title: str,
    reading: str,
    x: Axis,
    y: str,
    limits: Mapping[str, float] | None = None,
) -> Chart:
    """Return a line chart; its vertical axis starts at zero.

    Args:
        drawn: Lines, at least one.
        name: Name of the chart.
        title: Title of the chart.
        reading: Explanation.
        x: Horizontal axis.
        y: Unit of the values.
        limits: Legend → value of a dashed line.
    """
    positions = [position for line in drawn for position, _ in line.points]
    ends = [min(positions, default=0.0), max(positions, default=1.0)]
    dashed = [_dashed_line(legend, ends, [value] * 2) for legend, value in (limits or {}).items()]
    figure = draw([*(line.trace(y) for line in drawn), *dashed], height=330)
    figure.update_xaxes(title_text=x) if isinstance(x, str) else figure.update_xaxes(**x)
    figure.update_yaxes(title_text=y, rangemode="tozero")
    return Chart(name=name, title=title, reading=reading, figure=figure)


def _median(value: float | MedianRange) -> float:
    return value.median if isinstance(value, MedianRange) else value


def _error_bars(values: Sequence[Value], color: str) -> dict[str, Any] | None:
    """Return error bars from min to max around the medians; None without ranges."""
    ranges = [value for value in values if isinstance(value, MedianRange)]
    return (
        {
            "type": "data",
            "symmetric": False,
            "array": [value.highest - value.median for value in ranges],
            "arrayminus": [value.median - value.lowest for value in ranges],
            "color": color,
            "thickness": 1.2,
        }
        if ranges
        else None
    )


def _dashed_line(name: str, x: Sequence[float], y: Sequence[float]) -> go.Scatter:
    style = {"color": MARK, "width": 1.2, "dash": "dash"}
    return go.Scatter(name=name, x=x, y=y, mode="lines", line=style, hoverinfo="skip")
