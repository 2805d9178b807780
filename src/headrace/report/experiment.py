"""An experiment as a page of HTML and as text for the console."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from headrace.profiling.findings.finding import Finding
from headrace.profiling.provenance import Machine, Scalar
from headrace.report.drawing import Chart
from headrace.report.page import render_page
from headrace.report.text import (
    aligned,
    configuration_rows,
    finding_lines,
    machine_rows,
    printable,
)

_PAGE = "experiment.html.j2"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of an experiment, as text; the first column names the row."""

    reading: str
    """What the columns are, one or two sentences."""
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What was found, and what it was found with."""

    name: str
    """As the command line calls it: `bench workers`."""
    title: str
    """The question."""
    created: datetime
    command: tuple[str, ...]
    findings: tuple[Finding, ...]
    """The answer first."""
    charts: tuple[Chart, ...]
    table: Table
    configuration: Mapping[str, Scalar]
    machine: Machine
    versions: Mapping[str, str]


def render_experiment(experiment: Experiment) -> str:
    """The page: answer, charts, rows and provenance. Costs as `render_page` says."""
    return render_page(
        _PAGE,
        experiment.charts,
        experiment=experiment,
        command=shlex.join(experiment.command),
        configuration=configuration_rows(experiment.configuration),
        machine=machine_rows(experiment.machine),
    )


def render_experiment_text(experiment: Experiment) -> str:
    """The rows and the answer, ending in a newline."""
    heads, rows = experiment.table.heads, experiment.table.rows
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    cells = [[c.rjust(w) for c, w in zip(row, widths, strict=True)] for row in (heads, *rows)]
    lines = [experiment.title, "", *aligned(cells), "", *finding_lines(experiment.findings)]
    return "\n".join(map(printable, lines)).rstrip() + "\n"
