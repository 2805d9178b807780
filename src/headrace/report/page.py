"""Self-contained HTML page."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from headrace.profiling.number_format import milliseconds, percent, seconds
from headrace.report.drawing import Chart

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
