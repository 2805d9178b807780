"""A session as one page of HTML that needs nothing but itself."""

import base64
import hashlib
import json
import re
import shlex
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from headrace.profiling.findings import find, stage_loads
from headrace.profiling.metrics import P95_SAMPLES, Distribution, Metrics
from headrace.profiling.session import Session
from headrace.report.charts import charts
from headrace.report.numbers import counted, decimal, milliseconds, percent, seconds
from headrace.report.text import configuration_rows, machine_rows
from headrace.report.totals import cost_ratio, totals

_FOLDER = "templates"
_PAGE = "report.html.j2"
_STYLE = "report.css"
_SCRIPT = "report.js"
_DAMAGED_SHOWN = 500

_UNITS = re.compile(r"(?<=\d) (?=(?:%|ms|s|min|h|MB|GiB|frames/s|frames?|steps?)\b|%)")


def render_html(session: Session) -> str:
    """The report: verdict, totals, charts, damaged frames, configuration and provenance.

    About 5 MB, most of it plotly.js. The page loads nothing from anywhere, and its own policy
    forbids it to; names found in the video or on the command line are shown as text, never run.
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
        "keep": _keep_units,
    }
    metrics = Metrics.of(session)
    drawn = tuple(charts(session, metrics))
    plotly, script = get_plotlyjs(), _read(_SCRIPT)
    return environment.get_template(_PAGE).render(
        session=session,
        metrics=metrics,
        findings=find(session),
        totals=totals(session, metrics),
        ratio=cost_ratio(metrics),
        loads=stage_loads(session),
        spreads=_spreads(metrics),
        source=_source_rows(session),
        machine=machine_rows(session.machine),
        configuration=configuration_rows(session.configuration),
        p95_samples=P95_SAMPLES,
        damaged_shown=_DAMAGED_SHOWN,
        command=shlex.join(session.command),
        charts=drawn,
        figures={chart.name: json.loads(chart.figure.to_json()) for chart in drawn},
        style=Markup(_read(_STYLE)),
        plotly=Markup(plotly),
        script=Markup(script),
        script_hashes=[_content_hash(plotly), _content_hash(script)],
    )


def _read(name: str) -> str:
    """A file of this package that goes into the page as it is."""
    return (resources.files("headrace.report") / _FOLDER / name).read_text(encoding="utf-8")


def _content_hash(script: str) -> str:
    """What the page's policy calls this one script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _keep_units(text: str) -> str:
    """`text` with no line break between a number and its unit."""
    return _UNITS.sub("\N{NO-BREAK SPACE}", text)


def _spreads(metrics: Metrics) -> list[tuple[str, Distribution]]:
    named = (
        ("Service time per step", metrics.service_ms),
        ("Interval between outputs", metrics.interval_ms),
    )
    return [(name, spread) for name, spread in named if spread is not None]


def _source_rows(session: Session) -> list[tuple[str, str]]:
    """Label and value of what is known about the video."""
    source = session.source
    rate = f"{float(source.frame_rate):.6g} frames/s"
    traits = [
        "B-frames" if source.has_b_frames else "no B-frames",
        "variable frame rate" if source.is_vfr else "constant frame rate",
        f"rotated {source.rotation}°" if source.rotation else "upright",
    ]
    rows = [
        ("File", source.path),
        ("Codec", source.codec),
        ("Size", f"{source.height}×{source.width} (height×width)"),
        ("Length", f"{counted(source.frames, 'frame')} in {seconds(source.duration_seconds)}"),
        ("Counted by", "its packets" if source.counted_by == "packets" else "decoding it all"),
        ("Frame rate", rate),
        ("Traits", ", ".join(traits)),
    ]
    if source.gop is not None:
        gop = source.gop
        rows.append(("GOP", f"{gop.minimum} to {gop.maximum} frames, mean {decimal(gop.mean)}"))
    return rows
