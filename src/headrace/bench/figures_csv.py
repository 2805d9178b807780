"""CSV of a benchmark's figures: one line per row and repetition; column names contain units."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from headrace.measuring.interleaved import Repetition, RepetitionRow
from headrace.profiling.provenance import Record
from headrace.runtime.distribution import Distribution

_STATISTICS: Final = ("mean", "std", "p50", "p95")
"""Statistics of a series of numbers, for example the times of all batches."""
_NAMES: Final = {
    "fps": "frames_per_second",
    "per_second": "frames_in_a_second",
    "service_p50": "service_ms_p50",
    "latency_p50": "latency_ms_p50",
    "latency_p95": "latency_ms_p95",
    "jitter": "jitter_ms",
    "mean_apart": "mean_apart_levels",
    "most_apart": "most_apart_levels",
}
"""Field whose name lacks its unit → column."""


def figures_csv(rows: Iterable[tuple[str, Any]], unit: str) -> str:
    """Return the figures of all rows under the union of their columns; missing cells are empty.

    A `RepetitionRow` has one line per repetition, or one line with its facts if it was skipped. A
    record has one line; a sequence of records, one line each. A series of numbers becomes its mean,
    standard deviation, p50 and p95 (empty with fewer than 90 numbers).

    Args:
        rows: Name of each row in the table, and the row.
        unit: Unit of the work of a repetition: `frames` becomes `frames_per_second`.
    """
    lines = [{"row": name, **line} for name, row in rows for line in _lines(row, unit)]
    columns = dict.fromkeys(["row", *(column for line in lines for column in line)])
    table = io.StringIO()
    writer = csv.DictWriter(table, [*columns], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return table.getvalue()


def _lines(row: Any, unit: str) -> Iterator[dict[str, object]]:
    if isinstance(row, RepetitionRow):
        values = (getattr(row, field.name) for field in fields(row))
        facts = dict(cell for fact in values if isinstance(fact, Record) for cell in _cells(fact))
        for repetitions in row.series:
            for number, repetition in enumerate(repetitions, 1):
                yield {**facts, "repetition": number, **_record_cells(repetition, unit)}
        if not any(row.series):
            yield facts
    elif isinstance(row, Record):
        yield _record_cells(row, unit)
    elif isinstance(row, Sequence) and all(isinstance(item, Record) for item in row):
        yield from (_record_cells(record, unit) for record in row)
    else:
        yield {}


def _record_cells(record: Record, unit: str) -> dict[str, object]:
    """Return the columns of a record; a repetition also has its rate."""
    cells = dict(_cells(record))
    if "amount" in cells:
        cells = {unit if column == "amount" else column: cell for column, cell in cells.items()}
    if isinstance(record, Repetition):
        cells[f"{unit}_per_second"] = record.rate
    return cells


def _cells(record: Record) -> Iterator[tuple[str, object]]:
    """Yield column and cell of each field; a series or a mapping has several."""
    for field, value in record:
        column = _NAMES.get(field, field)
        if isinstance(value, Mapping):
            for key, part in value.items():
                yield from _cell(f"{column}_{key.replace(' ', '_')}", part)
        else:
            yield from _cell(column, value)


def _cell(column: str, value: Any) -> Iterator[tuple[str, object]]:
    if isinstance(value, str | int | float | None):
        yield column, value
    elif isinstance(value, tuple) and value:
        if all(isinstance(item, str) for item in value):
            yield column, "; ".join(value)
        elif all(isinstance(item, int | float) for item in value):
            series = Distribution.of(value)
            yield from ((f"{column}_{figure}", getattr(series, figure)) for figure in _STATISTICS)
