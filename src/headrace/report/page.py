"""Charts, and the self-contained HTML page that shows them."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from headrace.profiling.number_format import milliseconds, percent, seconds
from headrace.profiling.run_records import Role

# Of medium lightness, for contrast on light and dark pages.
PLAIN: Final = "#7389ab"
MARK: Final = "#d9536a"
BLOCKED_COLOR: Final = "rgba(128, 136, 148, 0.32)"
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


_FOLDER = "templates"
_STYLE = "report.css"
_SCRIPT = "report.js"

_UNITS = re.compile(r"(?<=\d) (?=(?:%|ms|s|min|h|MB|GiB|frames/s|frames?|steps?)\b|%)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def render_page(template: str, charts: Sequence[Chart], **values: object) -> str:
    """Return the page of a template that extends `page.html.j2`, with charts and values.

    About 5 MB, mostly plotly.js. The page loads nothing, and its Content-Security-Policy enforces
    this. Values are escaped.
    """
    environment = Environment(
        loader=PackageLoader("headrace.report", _FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "milliseconds": milliseconds,
        "percent": percent,
        "seconds": seconds,
        "keep": _keep_together,
    }
    plotly, script = get_plotlyjs(), _read(_SCRIPT)
    return environment.get_template(template).render(
        **values,
        charts=charts,
        drawings={chart.name: json.loads(chart.figure.to_json()) for chart in charts},
        style=Markup(_read(_STYLE)),
        plotly=Markup(plotly),
        script=Markup(script),
        script_hashes=[_content_hash(plotly), _content_hash(script)],
    )


def _read(name: str) -> str:
    """Return the text of a file in this package."""
    return (resources.files("headrace.report") / _FOLDER / name).read_text(encoding="utf-8")


def _content_hash(script: str) -> str:
    """Return the hash of a script for the page's Content-Security-Policy."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _keep_together(text: str) -> Markup:
    """Return `text` without breaks between a number and its unit, or within an option."""
    escaped = str(escape(_UNITS.sub("\N{NO-BREAK SPACE}", text)))
    return Markup(_OPTION.sub(r'<span class="option">\g<0></span>', escaped))
