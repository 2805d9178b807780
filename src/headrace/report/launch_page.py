"""Report of a launch: its workers side by side, as HTML, text and CSV."""

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from headrace.atomic_file import write_whole
from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.verdict import busy_banner
from headrace.profiling.number_format import (
    count,
    counted,
    decimal,
    gibibytes,
    listing,
    milliseconds,
    percent,
    seconds,
)
from headrace.profiling.run_records import ROLES, Role
from headrace.report.benchmark_page import (
    BenchmarkPage,
    Table,
    render_benchmark,
    render_benchmark_text,
)
from headrace.report.page import PLAIN, ROLE_COLORS, Chart, bar, draw, label
from headrace.report.session_tables import counted_by_kind
from headrace.runs.launch.launch_record import (
    LaunchRecord,
    LaunchWorkerRecord,
    describe_exit,
    failed_workers,
)

RECORD: Final = "launch.json"
TABLE: Final = "workers.csv"
REPORT: Final = "report.html"
_NONE: Final = "–"
_OPTIONAL: Final = ("latency p50", "p95", "GPU memory", "others")
"""Columns that are left out if no worker has a value."""
_NEARLY_ALL: Final = 0.95
"""Min concurrent time, as a share of the longest run, for its figures to count as concurrent."""
_MAX_SIDE_BY_SIDE: Final = 4
"""Max workers that fit side by side into 80 columns."""


def write_launch(record: LaunchRecord, folder: Path) -> None:
    """Write the record, the table and the page of a launch into `folder`.

    Raises:
        ConfigError: the folder cannot be written.
    """
    texts = {
        RECORD: record.model_dump_json(indent=1) + "\n",
        TABLE: workers_csv(record),
        REPORT: render_benchmark(launch_page(record)),
    }
    for name, text in texts.items():
        write_whole(folder / name, text)


def render_launch_text(record: LaunchRecord) -> str:
    """Return table and findings as text, ending in a newline."""
    return render_benchmark_text(launch_page(record))


def launch_page(record: LaunchRecord) -> BenchmarkPage:
    """Return the page: workers, findings and provenance."""
    return BenchmarkPage(
        name="launch",
        title=_verdict(record),
        is_title_verdict=True,
        findings=(*_describe_concurrency(record), *map(_finding, record.workers)),
        banner=busy_banner(record.others_cpu_share),
        charts=tuple(_charts(record)),
        table=Table(
            reading="Frames per second, service time and latency are from the report of each "
            "worker, without warm-up; CPU time is that of the whole run, memory the peak of the "
            "process. Others: CPU share of other programs and workers on its cores.",
            **_headers_and_rows(record),
        ),
        provenance=record.provenance,
    )


def workers_csv(record: LaunchRecord) -> str:
    """Return a table with one line per worker; column names have the units."""
    table = io.StringIO()
    roles = _roles(record)
    names = [
        *("worker", "outcome", "exit_code", "model", "device", "batch_size", "frames"),
        *("wall_seconds", "fps", "service_ms_p50", "latency_base", "latency_ms_p50"),
        *("latency_ms_p95", *(f"{ROLES[role].column}_ms_per_frame" for role in roles)),
        *("cpu_seconds", "peak_memory_bytes", "peak_gpu_bytes", "others_cpu_share"),
        *("dropped", "lost", "lost_videos"),
        *("ready_seconds", "began_ms", "finding", "error", "folder"),
    ]
    writer = csv.DictWriter(table, names, restval="", lineterminator="\n")
    writer.writeheader()
    for worker in record.workers:
        figures = worker.figures
        values: dict[str, object] = worker.model_dump(include={*names}, exclude_none=True)
        if figures is not None:
            values |= figures.model_dump(include={*names}, exclude_none=True)
            if figures.usage is not None:
                values |= figures.usage.model_dump(exclude_none=True)
            values |= {f"{ROLES[r].column}_ms_per_frame": ms for r, ms in figures.work_ms.items()}
            values |= {"service_ms_p50": figures.service_ms, "latency_ms_p50": figures.latency_ms}
        writer.writerow({"worker": worker.name, **values})
    return table.getvalue()


def _verdict(record: LaunchRecord) -> str:
    """Return a sentence with the workers that completed, and those that did not."""
    failed = [worker.name for worker in failed_workers(record.workers)]
    complete = [worker.name for worker in record.workers if worker.is_good]
    if failed:
        others = f"; {listing(complete)} did" if complete else ""
        return f"{listing(failed)} did not complete{others}."
    if len(complete) < len(record.workers):
        return "All workers were stopped; their results so far were saved."
    return f"{counted(len(complete), 'worker')} completed: {listing(complete)}."


def _describe_concurrency(record: LaunchRecord) -> Iterator[Finding]:
    """Yield the finding on the time in which all workers ran; nothing with fewer than two."""
    spread, together = record.start_spread_ms, record.together_seconds
    if spread is None or together is None or not record.longest_seconds:
        return
    share = together / record.longest_seconds
    rest = "; the figures of that run include time with fewer workers"
    yield Finding(
        headline=f"All workers ran at the same time for {seconds(together)}, {percent(share)} of "
        f"the longest run{rest if share < _NEARLY_ALL else ''}.",
        evidence=(f"They started within {decimal(spread)} ms of each other.",),
    )


def _finding(worker: LaunchWorkerRecord) -> Finding:
    figures = worker.figures
    end = f"{worker.name} {describe_exit(worker)}" if failed_workers([worker]) else ""
    if figures is None:
        return Finding(headline=end or f"{worker.name}: no figures were recorded")
    evidence = (f"{end}.",) if end else ()
    return Finding(
        headline=f"{worker.name}: {figures.finding}", evidence=evidence, change=figures.change
    )


def _charts(record: LaunchRecord) -> Iterator[Chart]:
    shown = [(worker.name, worker.figures) for worker in record.workers if worker.figures][::-1]
    names = [label(name) for name, _ in shown]
    height = 80 + 40 * len(shown)
    if any(figures.fps for _, figures in shown):
        rates = [figures.fps or 0.0 for _, figures in shown]
        labels = [decimal(rate) for rate in rates]
        bars = bar(x=rates, y=names, text=labels, orientation="h", color=PLAIN, name="frames/s")
        figure = draw([bars], height=height)
        figure.update_xaxes(title_text="frames/s")
        figure.update_traces(hovertemplate="%{x:.1f} frames/s", textposition="auto")
        yield Chart(
            name="throughput",
            title="Throughput",
            reading="Frames per second of each worker after start-up, next to the other workers.",
            figure=figure,
            is_wide=False,
        )
    roles = _roles(record)
    if roles:
        figure = draw(
            [
                bar(
                    x=[figures.work_ms.get(role, 0.0) for _, figures in shown],
                    y=names,
                    orientation="h",
                    color=ROLE_COLORS[role],
                    name=role,
                    hovertemplate=f"{role} %{{x:.2f}} ms<extra></extra>",
                )
                for role in roles
            ],
            height=height,
            barmode="stack",
        )
        figure.update_xaxes(title_text="ms/frame")
        yield Chart(
            name="work",
            title="Work per frame",
            reading="Milliseconds that each stage works on a frame. Stages overlap: the longest "
            "part sets the pace of the worker.",
            figure=figure,
            is_wide=False,
        )


def _roles(record: LaunchRecord) -> list[Role]:
    """Return the roles of all workers, in the order of the frames."""
    roles = {r for worker in record.workers if worker.figures for r in worker.figures.work_ms}
    return [role for role in ROLES if role in roles]


def _columns(record: LaunchRecord) -> dict[str, Callable[[Any], str]]:
    """Return header → function from the figures of a worker to text."""
    shown = [worker.figures for worker in record.workers if worker.figures]
    columns: dict[str, Callable[[Any], str]] = {
        "model": lambda f: f.model or _NONE,
        "device": lambda f: f.device,
        "frames": lambda f: count(f.frames),
        "run": lambda f: seconds(f.wall_seconds),
        "frames/s": lambda f: _NONE if f.fps is None else decimal(f.fps),
        "service p50": lambda f: _ms(f.service_ms),
        "latency p50": lambda f: _ms(f.latency_ms),
        "p95": lambda f: milliseconds(f.latency_ms_p95) if f.latency_base else _NONE,
        "CPU": lambda f: seconds(f.usage.cpu_seconds) if f.usage else _NONE,
        "memory": lambda f: _bytes(f.usage and f.usage.peak_memory_bytes),
        "GPU memory": lambda f: _bytes(f.usage and f.usage.peak_gpu_bytes),
        "others": lambda f: _NONE if f.others_cpu_share is None else percent(f.others_cpu_share),
        "dropped": lambda f: count(f.dropped),
        "damaged": lambda f: counted_by_kind(f.lost, f.lost_videos),
    }
    unknown = [name for name in _OPTIONAL if all(columns[name](f) == _NONE for f in shown)]
    return {name: value for name, value in columns.items() if name not in unknown}


def _headers_and_rows(record: LaunchRecord) -> dict[str, Any]:
    """Return headers and rows of the table: one column per worker if they fit, else one row."""
    columns = _columns(record)
    headers, rows = ("worker", *columns, "outcome"), []
    for worker in record.workers:
        f = worker.figures
        values = [value(f) if f else _NONE for value in columns.values()]
        rows.append((worker.name, *values, worker.outcome))
    if len(rows) > _MAX_SIDE_BY_SIDE:
        return {"headers": headers, "rows": tuple(rows)}
    across = tuple(zip(headers, *rows, strict=True))
    return {"headers": across[0], "rows": across[1:]}


def _ms(value: float | None) -> str:
    return _NONE if value is None else milliseconds(value)


def _bytes(value: int | None) -> str:
    return gibibytes(value) if value else _NONE
