"""Run folder: session, table of steps and HTML report of a run."""

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from headrace.atomic_file import write_whole
from headrace.errors import ConfigError
from headrace.profiling.findings.utilization import stage_loads
from headrace.profiling.findings.verdict import busy_banner, find
from headrace.profiling.input_records import SourceSummary
from headrace.profiling.metrics import Metrics, latency_start, metrics_csv, metrics_file_name
from headrace.profiling.number_format import counted, decimal, seconds
from headrace.profiling.session import Session
from headrace.report.page import render_page
from headrace.report.session_charts import charts
from headrace.report.session_tables import (
    WORKER_HEADERS,
    lost_rows,
    lost_words,
    timeline,
    worker_rows,
)
from headrace.report.text import configuration_rows, machine_rows, title
from headrace.report.totals import cost_ratio, totals
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
        ratio=cost_ratio(session, metrics),
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
        (f"Latency from {latency_start(session)}", metrics.latency.ms if metrics.latency else None),
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


SESSION = "session.json"
REPORT = "report.html"
_RESULTS: Final = r"annotated[0-9.-]*\.mp4|(predictions|boxes)\.(jsonl|parquet)|coco\.json"
_RESULT_FILE: Final = re.compile(rf"{_RESULTS}|annotated/")
"""Names of the results of a run."""
_RUN_FILE: Final = re.compile(
    rf"{_RESULTS}|M_[\w.-]+_P_\d+_metrics\.csv|trace\.json\.gz|report\.html"
)
"""Names of the files of a run; other files in the folder belong to the user."""


def is_run_file(name: str) -> bool:
    """Return whether a name is that of a file of a run; other files belong to the user."""
    return name == SESSION or _RUN_FILE.fullmatch(name) is not None


def write_run(session: Session, folder: Path) -> Session:
    """Write session, table and report into `folder`; return the session with their names.

    A folder has the files of one run: files of an earlier session are removed unless this session
    wrote them. A run that ended before its first result leaves an earlier session with results as
    it is, and is returned unchanged.

    Raises:
        ConfigError: the folder cannot be written.
    """
    earlier = _list_earlier(folder)
    if _has_only_earlier_results(earlier, session):
        return session
    model = str(session.provenance.configuration.get("model", session.kind))
    metrics = metrics_file_name(model, session.provenance.pid or 0)
    outputs = (*session.outputs, REPORT, metrics, SESSION)
    session = session.model_copy(update={"outputs": outputs})
    session.save(folder / SESSION)
    write_whole(folder / metrics, metrics_csv(session))
    write_whole(folder / REPORT, render_html(session))
    _remove_earlier(folder, earlier, session)
    return session


def _has_only_earlier_results(earlier: Sequence[str], session: Session) -> bool:
    """Return whether an earlier run has results, and this run ended before its first."""
    is_over = session.kind in ("run", "live") and session.outcome != "complete"
    has_earlier, has_new = (
        any(map(_RESULT_FILE.fullmatch, names)) for names in (earlier, session.outputs)
    )
    return is_over and has_earlier and not (has_new or len(session.steps))


def write_checkpoint(session: Session, folder: Path) -> None:
    """Write the record of an unfinished run into `folder`; remove files of an earlier run.

    See `write_run`.

    Raises:
        ConfigError: the folder cannot be written.
    """
    earlier = _list_earlier(folder)
    if _has_only_earlier_results(earlier, session):
        return
    session = session.model_copy(update={"outputs": (*session.outputs, SESSION)})
    session.save(folder / SESSION)
    _remove_earlier(folder, earlier, session)


def _list_earlier(folder: Path) -> tuple[str, ...]:
    """Return the files that the session in `folder` lists; empty without a session."""
    if not (folder / SESSION).is_file():
        return ()
    try:
        return Session.load(folder / SESSION).outputs
    except ConfigError:
        return ()


def _remove_earlier(folder: Path, earlier: Sequence[str], session: Session) -> None:
    sources = {Path(video.path).absolute() for video in session.inputs}
    for name in earlier:
        path = folder / name
        # The record is not trusted: inputs and files outside the folder are never removed.
        is_run_file = name not in session.outputs and _RUN_FILE.fullmatch(name) is not None
        if is_run_file and path.absolute() not in sources:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def render_again(folder: Path) -> Path:
    """Render the report of a run folder again from its session; return the path of the report.

    Raises:
        ConfigError: the session cannot be read, or the folder cannot be written.
    """
    session = Session.load(folder / SESSION)
    write_whole(folder / REPORT, render_html(session))
    return folder / REPORT
