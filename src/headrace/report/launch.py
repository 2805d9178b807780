"""A launch as a page, as text and as a table: its workers beside each other."""

import csv
import io
from collections.abc import Iterator
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
from headrace.profiling.stage_records import ROLES, Role
from headrace.report.benchmark_page import (
    BenchmarkPage,
    Table,
    render_benchmark,
    render_benchmark_text,
)
from headrace.report.drawing import PLAIN, ROLE_COLORS, Chart, bar, draw, label
from headrace.report.losses import counted_by_kind
from headrace.runs.launch.launch_record import (
    Figures,
    LaunchRecord,
    LaunchWorkerRecord,
    end_words,
    failed,
)

RECORD: Final = "launch.json"
TABLE: Final = "workers.csv"
REPORT: Final = "report.html"
_NONE: Final = "–"
_NEARLY_ALL: Final = 0.95
_MOST_BESIDE: Final = 4
"""Workers whose figures fit beside each other on 80 columns."""


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
    """The workers beside each other and what was found, ending in a newline."""
    return render_benchmark_text(launch_page(record))


def launch_page(record: LaunchRecord) -> BenchmarkPage:
    """Return the workers beside each other, what was found about each, and with what."""
    return BenchmarkPage(
        name="launch",
        title=_verdict(record),
        is_title_verdict=True,
        findings=(*_together(record), *map(_finding, record.workers)),
        banner=busy_banner(record.others_cpu_share),
        charts=tuple(_charts(record)),
        table=Table(
            reading="Frames per second, service time and latency are those of each worker's own "
            "report, warm-up left out; CPU time is of its whole run, memory the most its process "
            "ever had. Others are other programs, the other workers among them: their share of "
            "the processor time that was used on its cores.",
            **_cells(record),
        ),
        provenance=record.provenance,
    )


def workers_csv(record: LaunchRecord) -> str:
    """A line for each worker: numbers without units, which the names of the columns tell."""
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
        own = worker.model_dump(include={*names}, exclude_none=True)
        found = worker.figures
        figures: dict[str, object] = {}
        if found is not None:
            figures = found.model_dump(include={*names}, exclude_none=True)
            if found.usage is not None:
                figures |= found.usage.model_dump(exclude_none=True)
            figures |= {f"{ROLES[r].column}_ms_per_frame": ms for r, ms in found.work_ms.items()}
            figures |= {"service_ms_p50": found.service_ms, "latency_ms_p50": found.latency_ms}
        writer.writerow({"worker": worker.name, **own, **figures})
    return table.getvalue()


def _verdict(record: LaunchRecord) -> str:
    """Who came to the end, and who did not."""
    bad = [worker.name for worker in failed(record.workers)]
    good = [worker.name for worker in record.workers if worker.is_good]
    if bad:
        return f"{listing(bad)} did not come to the end{f'; {listing(good)} did' if good else ''}."
    if len(good) < len(record.workers):
        return "All workers were stopped; what they did is kept."
    return f"{counted(len(good), 'worker')} came to the end: {listing(good)}."


def _together(record: LaunchRecord) -> Iterator[Finding]:
    """How crowded it was; nothing where fewer than two ran."""
    spread, together = record.start_spread_ms, record.together_seconds
    if spread is None or together is None or not record.longest_seconds:
        return
    share = together / record.longest_seconds
    rest = "; the rest of it was less crowded, and its figures hold both"
    yield Finding(
        headline=f"All of them ran at the same time for {seconds(together)}, {percent(share)} of "
        f"the longest run{rest if share < _NEARLY_ALL else ''}.",
        evidence=(f"They began within {decimal(spread)} ms of each other.",),
    )


def _finding(worker: LaunchWorkerRecord) -> Finding:
    found = worker.figures
    end = f"{worker.name} {end_words(worker)}" if failed([worker]) else ""
    if found is None:
        return Finding(headline=end or f"{worker.name}: it left no figures")
    evidence = (f"{end}.",) if end else ()
    return Finding(
        headline=f"{worker.name}: {found.finding}", evidence=evidence, change=found.change
    )


def _charts(record: LaunchRecord) -> Iterator[Chart]:
    shown = [(each.name, each.figures) for each in record.workers if each.figures][::-1]
    names = [label(name) for name, _ in shown]
    height = 80 + 40 * len(shown)
    if any(found.fps for _, found in shown):
        rates = [found.fps or 0.0 for _, found in shown]
        words = [decimal(rate) for rate in rates]
        bars = bar(x=rates, y=names, text=words, orientation="h", color=PLAIN, name="frames/s")
        figure = draw([bars], height=height)
        figure.update_traces(hovertemplate="%{x:.1f} frames/s", textposition="auto")
        figure.update_xaxes(title_text="frames/s")
        yield Chart(
            name="throughput",
            title="Throughput",
            reading="Frames per second of each worker after start-up, with the others beside it.",
            figure=figure,
            is_wide=False,
        )
    roles = _roles(record)
    if roles:
        figure = draw(
            [_role_bar(role, names, [found for _, found in shown]) for role in roles],
            height=height,
            barmode="stack",
        )
        figure.update_xaxes(title_text="ms per frame")
        yield Chart(
            name="work",
            title="Work per frame",
            reading="Milliseconds each stage works on a frame. Stages overlap: the longest part "
            "sets the pace of its worker.",
            figure=figure,
            is_wide=False,
        )


def _role_bar(role: Role, names: list[str], found: list[Figures]) -> Any:
    values = [each.work_ms.get(role, 0.0) for each in found]
    made = bar(x=values, y=names, orientation="h", color=ROLE_COLORS[role], name=role)
    made.update(hovertemplate=f"{role} %{{x:.2f}} ms<extra></extra>")
    return made


def _roles(record: LaunchRecord) -> list[Role]:
    """Those that any worker has work of, in the order the frames take."""
    found = {role for each in record.workers if each.figures for role in each.figures.work_ms}
    return [role for role in ROLES if role in found]


def _columns(record: LaunchRecord) -> list[tuple[str, Any]]:
    """Head and what gives the cell, for those figures that any worker has."""
    shown = [each.figures for each in record.workers if each.figures]
    has_latency = any(found.latency_base for found in shown)
    has_gpu = any(found.usage and found.usage.peak_gpu_bytes for found in shown)
    columns: list[tuple[str, Any]] = [
        ("model", lambda f: f.model or _NONE),
        ("device", lambda f: f.device),
        ("frames", lambda f: count(f.frames)),
        ("run", lambda f: seconds(f.wall_seconds)),
        ("frames/s", lambda f: _NONE if f.fps is None else decimal(f.fps)),
        ("service p50", lambda f: _ms(f.service_ms)),
    ]
    if has_latency:
        columns.append(("latency p50", lambda f: _ms(f.latency_ms)))
        columns.append(
            ("p95", lambda f: milliseconds(f.latency_ms_p95) if f.latency_base else _NONE)
        )
    columns.append(("CPU", lambda f: seconds(f.usage.cpu_seconds) if f.usage else _NONE))
    columns.append(("memory", lambda f: _bytes(f.usage and f.usage.peak_memory_bytes)))
    if has_gpu:
        columns.append(("GPU memory", lambda f: _bytes(f.usage and f.usage.peak_gpu_bytes)))
    if any(found.others_cpu_share is not None for found in shown):
        columns.append(("others", lambda f: _share(f.others_cpu_share)))
    columns.append(("dropped", lambda f: count(f.dropped)))
    columns.append(("damaged", lambda f: counted_by_kind(f.lost, f.lost_videos)))
    return [*columns, ("outcome", None)]


def _cells(record: LaunchRecord) -> dict[str, Any]:
    """Heads and rows: the workers beside each other where they are few, else below."""
    heads = ("worker", *(head for head, _ in _columns(record)))
    rows = tuple(_row(worker, record) for worker in record.workers)
    if len(rows) > _MOST_BESIDE:
        return {"heads": heads, "rows": rows}
    across = tuple(zip(heads, *rows, strict=True))
    return {"heads": across[0], "rows": across[1:]}


def _row(worker: LaunchWorkerRecord, record: LaunchRecord) -> tuple[str, ...]:
    cells = [
        worker.outcome if cell is None else cell(worker.figures) if worker.figures else _NONE
        for _, cell in _columns(record)
    ]
    return (worker.name, *cells)


def _ms(value: float | None) -> str:
    return _NONE if value is None else milliseconds(value)


def _share(value: float | None) -> str:
    return _NONE if value is None else percent(value)


def _bytes(value: int | None) -> str:
    return gibibytes(value) if value else _NONE
