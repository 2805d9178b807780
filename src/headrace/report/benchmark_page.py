"""Page of a benchmark, as HTML and text."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.profiling.findings.finding import Finding
from headrace.profiling.number_format import counted, gibibytes
from headrace.profiling.provenance import Machine, Provenance
from headrace.report.page import Chart, render_page
from headrace.report.text import (
    WIDTH,
    aligned,
    banner_lines,
    configuration_rows,
    finding_lines,
    gpu_text,
    join_lines,
    machine_rows,
    wrap,
)

_PAGE = "benchmark.html.j2"

Row = TypeVar("Row")
Shown = TypeVar("Shown", contravariant=True)


@dataclass(frozen=True)
class Column(Generic[Shown]):
    """One column of a benchmark's table."""

    header: str
    cell: Callable[[Shown], str]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Table of a benchmark as text; the first column is the name of the row."""

    reading: str
    """Explanation of the columns, one or two sentences."""
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def table(columns: Sequence[Column[Row]], rows: Sequence[Row], reading: str) -> Table:
    """Return the table with the cells of `rows` as text."""
    return Table(
        reading=reading,
        headers=tuple(column.header for column in columns),
        rows=tuple(tuple(column.cell(row) for column in columns) for row in rows),
    )


@dataclass(frozen=True, kw_only=True)
class BenchmarkPage:
    """Findings, figures and provenance of a benchmark."""

    name: str
    """Name on the command line: `bench workers`."""
    title: str
    """Description of the measurement, or the verdict."""
    is_title_verdict: bool = False
    """Whether the title is the verdict; otherwise the first finding is the heading."""
    findings: tuple[Finding, ...]
    """Findings, the conclusion first."""
    banner: str | None = None
    """Warning at the top that the machine was busy; None: it was not."""
    charts: tuple[Chart, ...]
    table: Table
    provenance: Provenance


def render_benchmark(page: BenchmarkPage) -> str:
    """Return the HTML page: findings, charts, table, provenance. Cost: see `render_page`."""
    provenance = page.provenance
    return render_page(
        _PAGE,
        page.charts,
        benchmark=page,
        created=provenance.created,
        command=shlex.join(provenance.command),
        configuration=configuration_rows(provenance.configuration),
        usable_cores=provenance.machine.usable_cores,
        machine=machine_rows(provenance.machine),
        versions=provenance.versions.items(),
    )


def render_benchmark_text(page: BenchmarkPage) -> str:
    """Return table and findings as text, ending in a newline.

    Lines have at most 80 columns, except for rows of a table with many columns.
    """
    headers, rows = page.table.headers, page.table.rows
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    cells = [[c.rjust(w) for c, w in zip(row, widths, strict=True)] for row in (headers, *rows)]
    lines = [*banner_lines(page.banner), *wrap(page.title, WIDTH), "", *aligned(cells), ""]
    lines += [*wrap(page.table.reading, WIDTH), "", *finding_lines(page.findings)]
    return join_lines(lines)


def machine_line(machine: Machine) -> str:
    """Return CPU, cores, memory and GPU of a machine, in one line."""
    gpus = ", ".join(map(gpu_text, machine.gpus))
    return (
        f"Machine: CPU {machine.cpu}, {machine.usable_cores} of "
        f"{counted(machine.logical_cores or machine.usable_cores, 'core')} usable; "
        f"RAM {gibibytes(machine.memory_bytes)}; GPU {gpus or 'none'}"
    )
