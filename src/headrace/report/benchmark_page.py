"""A benchmark as a page of HTML and as text for the console."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.profiling.findings.finding import Finding
from headrace.profiling.number_format import counted, gibibytes
from headrace.profiling.provenance import Machine, Provenance
from headrace.report.drawing import Chart
from headrace.report.page import render_page
from headrace.report.text import (
    aligned,
    banner_lines,
    configuration_rows,
    finding_lines,
    gpu_words,
    machine_rows,
    printable,
)

_PAGE = "benchmark.html.j2"

Row = TypeVar("Row")
Shown = TypeVar("Shown", contravariant=True)


@dataclass(frozen=True)
class Column(Generic[Shown]):
    """One column of a benchmark's table."""

    head: str
    cell: Callable[[Shown], str]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of a benchmark, as text; the first column names the row."""

    reading: str
    """What the columns are, one or two sentences."""
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def table(columns: Sequence[Column[Row]], rows: Sequence[Row], reading: str) -> Table:
    """Return rows as text."""
    return Table(
        reading=reading,
        heads=tuple(column.head for column in columns),
        rows=tuple(tuple(column.cell(row) for column in columns) for row in rows),
    )


@dataclass(frozen=True, kw_only=True)
class BenchmarkPage:
    """What was found, and what it was found with."""

    name: str
    """As the command line calls it: `bench workers`."""
    title: str
    """What was measured of what; or the verdict."""
    is_title_verdict: bool = False
    """Whether the title is the verdict, so that no finding stands above the others."""
    findings: tuple[Finding, ...]
    """The answer first."""
    banner: str | None = None
    """What stands above all else: that the machine was busy."""
    charts: tuple[Chart, ...]
    table: Table
    provenance: Provenance


def render_benchmark(page: BenchmarkPage) -> str:
    """The page: answer, charts, rows and provenance. Costs as `render_page` says."""
    made = page.provenance
    return render_page(
        _PAGE,
        page.charts,
        benchmark=page,
        created=made.created,
        command=shlex.join(made.command),
        configuration=configuration_rows(made.configuration),
        usable_cores=made.machine.usable_cores,
        machine=machine_rows(made.machine),
        versions=made.versions.items(),
    )


def render_benchmark_text(page: BenchmarkPage) -> str:
    """The rows and the answer, ending in a newline."""
    heads, rows = page.table.heads, page.table.rows
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    cells = [[c.rjust(w) for c, w in zip(row, widths, strict=True)] for row in (heads, *rows)]
    lines = [*banner_lines(page.banner), page.title, ""]
    lines += [*aligned(cells), "", *finding_lines(page.findings)]
    return "\n".join(map(printable, lines)).rstrip() + "\n"


def machine_line(machine: Machine) -> str:
    """What was measured on, in a line: processor, cores, memory, GPU."""
    gpus = ", ".join(map(gpu_words, machine.gpus))
    return (
        f"Machine: CPU {machine.cpu}, {machine.usable_cores} of "
        f"{counted(machine.logical_cores or machine.usable_cores, 'core')} usable; "
        f"RAM {gibibytes(machine.memory_bytes)}; GPU {gpus or 'none'}"
    )
