"""HTML report of a session."""

import re
import shlex
from typing import Final

from headrace.profiling.findings.utilization import stage_loads
from headrace.profiling.findings.verdict import busy_banner, find
from headrace.profiling.input_records import SourceSummary
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import counted, decimal, seconds
from headrace.profiling.session import Session
from headrace.report.losses import lost_rows, lost_words
from headrace.report.page import render_page
from headrace.report.session_charts import charts
from headrace.report.text import configuration_rows, machine_rows, title
from headrace.report.time_charts import timeline
from headrace.report.totals import WORKER_HEADERS, cost_ratio, totals, worker_rows
from headrace.runtime.distribution import P95_SAMPLES, Distribution

_PAGE = "report.html.j2"
_ANNOTATED: Final = re.compile(r"annotated[0-9.-]*\.mp4")
"""Names of the annotated videos of a run: H.264, which browsers play."""
_MAX_LOST = 500
"""Max rows of damaged frames."""
_MAX_EVENTS = 1_000
"""Max rows of events."""
_MAX_SOURCES = 5
"""Max videos with a table of properties."""
_MAX_VIDEOS = 4
"""Max annotated videos with a player."""


def render_html(session: Session) -> str:
    """Return the report: verdict, totals, videos, charts, damaged frames, provenance.

    The page is self-contained (see `render_page`), except for annotated videos in its folder.
    """
    metrics = Metrics.of(session)
    return render_page(
        _PAGE,
        tuple(charts(session, metrics)),
        session=session,
        metrics=metrics,
        findings=find(session),
        banner=busy_banner(session.others_cpu_share),
        totals=totals(session, metrics),
        ratio=cost_ratio(metrics),
        loads=stage_loads(session),
        distributions=_distributions(session, metrics),
        sources=[_source_rows(video) for video in session.inputs[:_MAX_SOURCES]],
        title=title(session),
        videos=[name for name in session.outputs if _ANNOTATED.fullmatch(name)],
        videos_shown=_MAX_VIDEOS,
        machine=machine_rows(session.provenance.machine),
        configuration=configuration_rows(session.provenance.configuration),
        p95_samples=P95_SAMPLES,
        lost=lost_rows(session),
        lost_words=lost_words(session),
        lost_shown=_MAX_LOST,
        worker_headers=WORKER_HEADERS,
        workers=worker_rows(session),
        timeline=tuple(timeline(session))[:_MAX_EVENTS],
        command=shlex.join(session.provenance.command),
    )


def _distributions(session: Session, metrics: Metrics) -> list[tuple[str, Distribution]]:
    named = (
        ("Service time per step", metrics.service_ms),
        ("Interval between outputs", metrics.interval_ms),
        (f"Latency from {session.pace}", metrics.latency.ms if metrics.latency else None),
        ("Age of the oldest frame", metrics.latency.oldest_ms if metrics.latency else None),
        ("Latency from capture, by the sender's clock", metrics.capture_ms),
    )
    return [(name, values) for name, values in named if values is not None]


def _source_rows(source: SourceSummary) -> list[tuple[str, str]]:
    """Return (label, value) rows of a video."""
    content = [("Content", source.content)] if source.content else []
    if not source.is_open:
        return [("File", source.path), ("Codec", "not known: it could not be opened"), *content]
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
        *content,
    ]
    if source.gop is not None:
        gop = source.gop
        rows.append(("GOP", f"{gop.minimum} to {gop.maximum} frames, mean {decimal(gop.mean)}"))
    return rows
