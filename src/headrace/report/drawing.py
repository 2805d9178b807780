"""Style and parts of all charts."""

import html
from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go

from headrace.profiling.stage_records import Role

# Of medium lightness, for contrast on light and dark pages.
PLAIN: Final = "#7389ab"
MARK: Final = "#d9536a"
ROLE_COLORS: Final[dict[Role, str]] = {
    "decode": "#4a8ad4",
    "preprocess": "#2fa28c",
    "transfer": "#b0a04a",
    "model": "#dd8233",
    "sink": "#9283cc",
}


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One figure with its title and explanation."""

    name: str
    """Unique in a report."""
    title: str
    reading: str
    """Explanation, one or two sentences."""
    figure: go.Figure
    """Figure without width and colors of text and grid; the page sets them."""
    is_wide: bool = True
    """Whether the chart takes the whole width of the page."""


def label(name: str) -> str:
    """Return `name` with at most 20 characters, escaped because plotly parses labels as markup."""
    return html.escape(name if len(name) <= 20 else f"{name[:19]}…", quote=False)


def bar(*, color: str | list[str], **options: Any) -> go.Bar:
    """Return bars without an outline."""
    return go.Bar(marker={"color": color, "line": {"width": 0}}, **options)


def draw(traces: list[Any], *, height: int, **layout: Any) -> go.Figure:
    """Return a transparent figure of `traces`; `height` is in pixels."""
    figure = go.Figure(traces)
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 8, "r": 22, "t": 34, "b": 8},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"},
        hovermode=layout.pop("hovermode", "closest"),
        dragmode="zoom",
        **layout,
    )
    figure.update_xaxes(automargin=True, tickangle=0, zeroline=False, title_standoff=8)
    figure.update_yaxes(automargin=True, zeroline=False, title_standoff=8)
    return figure
