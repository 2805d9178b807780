"""The charts of benchmarks: medians with bars, and the line of what is enough."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from headrace.measuring.interleaved import MedianRange
from headrace.profiling.number_format import decimal
from headrace.report.drawing import MARK, PLAIN, Chart, bar, draw, label

STACK: Final = (PLAIN, "#d9a253", "#5ea58c", "#9b7fc0")
"""Colours of series, in their order."""
_LINE: Final = MARK


def variant_bars(
    variants: Sequence[str],
    series: Mapping[str, Sequence[MedianRange | None]],
    unit: str,
    *,
    reading: str,
    **words: str,
) -> Chart:
    """Draw a bar of each series for each variant, the first on top.

    Args:
        variants: Their names.
        series: What the legend says -> a value for each variant, None where there is none.
        unit: Of the values.
        reading: How to read it; the spread is told besides.
        words: `name`, `title` and `axis` of `_sideways`.
    """
    labels, bars = [label(name) for name in variants], []
    for (said, spreads), color in zip(series.items(), STACK, strict=False):
        known = [(place, spread) for place, spread in enumerate(spreads) if spread]
        of = [spread for _, spread in known]
        bars.append(
            bar(
                name=said,
                x=[spread.median for spread in of],
                y=[place for place, _ in known],
                orientation="h",
                color=color,
                error_x=error_bars(of, _LINE),
                text=[f" {decimal(spread.median)} " for spread in of],
                textposition="auto",
                insidetextanchor="start",
                cliponaxis=False,
                hovertemplate=[
                    f"%{{x:.3~r}} {unit}, {said}<extra>{labels[place]}</extra>"
                    for place, _ in known
                ],
            )
        )
    spread = "Medians; the line on a bar reaches from the slowest turn to the fastest."
    height = 110 + len(variants) * (24 + 18 * len(bars))
    figure = draw(bars, height=height, bargap=0.3, showlegend=len(bars) > 1)
    return _sideways(figure, labels, unit, reading=f"{reading} {spread}", **words)


def stacked_bars(
    variants: Sequence[str], series: Mapping[str, Sequence[float]], unit: str, **words: str
) -> Chart:
    """Draw a bar for each variant, the first on top, with the values of the series end to end.

    `words` are `name`, `title`, `reading` and `axis` of `_sideways`.
    """
    labels = [label(each) for each in variants]
    bars = [
        bar(
            name=said,
            x=list(values),
            y=list(range(len(labels))),
            orientation="h",
            color=color,
            hovertemplate=[f"{said} %{{x:.3~r}} {unit}<extra>{each}</extra>" for each in labels],
        )
        for (said, values), color in zip(series.items(), STACK, strict=False)
    ]
    figure = draw(bars, height=130 + 42 * len(variants), bargap=0.35, barmode="stack")
    return _sideways(figure, labels, unit, **words)


def _sideways(
    figure: go.Figure,
    labels: Sequence[str],
    unit: str,
    *,
    name: str,
    title: str,
    reading: str,
    axis: str,
) -> Chart:
    """Return the chart of bars that lie; `axis` is the title of the axis of the labels."""
    figure.update_xaxes(title_text=unit, rangemode="tozero")
    # By number, as long names that are cut may be the same.
    places = list(range(len(labels)))
    figure.update_yaxes(title_text=axis, autorange="reversed", tickvals=places, ticktext=labels)
    return Chart(name=name, title=title, reading=reading, figure=figure, is_wide=False)


def upright_bars(
    names: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    unit: str,
    colors: Sequence[str],
) -> list[go.Bar]:
    """Return bars that stand on the names, of each series in its colour."""
    return [
        bar(
            x=list(names),
            y=list(values),
            color=color,
            name=said,
            hovertemplate=f"{said} %{{y:.1f}} {unit}<extra>%{{x}}</extra>",
        )
        for (said, values), color in zip(series.items(), colors, strict=False)
    ]


def chart(
    traces: Sequence[Any],
    *,
    name: str,
    title: str,
    reading: str,
    height: int,
    x: str | Mapping[str, Any] | None = None,
    y: str | Mapping[str, Any] | None = None,
    is_wide: bool = True,
    **layout: Any,
) -> Chart:
    """Draw traces over two named axes; the vertical one begins at zero.

    Args:
        traces: What plotly draws.
        name: Of the chart.
        title: What it shows.
        reading: How to read it.
        height: Pixels.
        x: Title of the horizontal axis, or its options of plotly.
        y: The same of the vertical one.
        is_wide: Whether it wants the whole width of the page.
        layout: Options of plotly's layout.
    """
    figure = draw(list(traces), height=height, **layout)
    for update, axis, fixed in (
        (figure.update_xaxes, x, {}),
        (figure.update_yaxes, y, {"rangemode": "tozero"}),
    ):
        if axis is not None:
            update({**fixed, **({"title_text": axis} if isinstance(axis, str) else axis)})
    return Chart(name=name, title=title, reading=reading, figure=figure, is_wide=is_wide)


def line(
    name: str,
    x: Sequence[Any],
    y: Sequence[Any],
    color: str = PLAIN,
    *,
    hover: str | None,
    **options: Any,
) -> go.Scatter:
    """Return a line with a mark at each value; `options` are those of plotly's scatter."""
    style = {"color": color, "width": 1.8, **options.pop("line", {})}
    return go.Scatter(
        **{"mode": "lines+markers", "name": name, "x": list(x), "y": list(y), **options},
        line=style,
        hovertemplate=hover,
    )


def marks(
    name: str, x: Sequence[Any], y: Sequence[Any], *, hover: str | None = None, **options: Any
) -> go.Scatter:
    """Return marks alone; `options` are those of plotly's marker, and `error_y`."""
    return go.Scatter(
        mode="markers",
        name=name,
        x=list(x),
        y=list(y),
        error_y=options.pop("error_y", None),
        marker=options,
        hovertemplate=hover,
        hoverinfo=None if hover else "skip",
    )


def error_bars(rates: Sequence[MedianRange], color: str) -> dict[str, Any]:
    """Return bars from the lowest to the highest, to lie on the medians."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [rate.highest - rate.median for rate in rates],
        "arrayminus": [rate.median - rate.lowest for rate in rates],
        "color": color,
        "thickness": 1.2,
    }


def dashed(color: str, **places: Any) -> go.Scatter:
    """Return a straight dashed line; `places` are its x and y, and its name if it has one."""
    return go.Scatter(
        mode="lines",
        line={"color": color, "width": 1.2, "dash": "dash"},
        hoverinfo="skip",
        **places,
    )
