"""The table of entrants beside each other on each kind of media."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.markdown import failed, spread, table
from benchmarks.record import Row, TimedResult


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What the table shows beside the speeds."""

    names: Mapping[str, str]
    name: str
    """Head of the first column."""
    limit: str
    """Name of the entrant that the others are divided by."""
    ratio: str
    digits: int
    """Of the ratio, and of CPU milliseconds."""
    memory: str
    peaks: Callable[[Row], Sequence[float]]
    """Bytes; the greatest of all is shown."""


def comparison(lines: Sequence[Sequence[Row]], columns: Columns) -> str:
    """One line per entrant: speed and ratio on each kind of media, then what it costs."""
    kinds = list(dict.fromkeys(row.kind for rows in lines for row in rows))
    limits = {row.kind: row for rows in lines for row in rows if row.name == columns.limit}
    header = [columns.name]
    for kind in kinds:
        header += [f"{kind}: frames/s", columns.ratio]
    together = " / ".join(kinds)
    header += [f"amplification ({together})", f"CPU ms per frame ({together})", columns.memory]
    return table(header, [_line(rows, limits, columns) for rows in lines])


def by_name(result: TimedResult) -> list[list[Row]]:
    """The rows of each entrant, one for each kind of media."""
    names = dict.fromkeys(row.name for row in result.rows)
    return [[row for row in result.rows if row.name == name] for name in names]


def quickest_first(lines: Sequence[list[Row]]) -> list[list[Row]]:
    """By the speed on the first kind of media."""
    return sorted(lines, key=lambda rows: -rows[0].speed)


def ratio(row: Row, limit: Row | None) -> float | None:
    """Median over the rounds of this one's speed by the limit's in the same round."""
    if limit is None or not row.repeats or len(row.repeats) != len(limit.repeats):
        return None
    pairs = zip(row.repeats, limit.repeats, strict=True)
    return median(ours.frames_per_second / its.frames_per_second for ours, its in pairs)


def difference(result: TimedResult) -> float:
    """The greatest mean difference of any frame from the reference's."""
    found = [row.equality.max_mean_difference for row in result.rows if row.equality]
    return max(found, default=0)


def _line(rows: Sequence[Row], limits: Mapping[str, Row], columns: Columns) -> list[str]:
    cells = [columns.names.get(rows[0].name, rows[0].name)]
    for row in rows:
        share = ratio(row, limits.get(row.kind))
        cells += [_speed(row), "" if share is None else f"{share:.{columns.digits}f}"]
    timed = [row for row in rows if row.repeats]
    decoded = [f"{each:.2f}" for row in timed if (each := row.amplification) is not None]
    cpu = [f"{median(ms):.{columns.digits}f}" for row in timed if (ms := _cpu_ms(row))]
    peak = max((each for row in timed for each in columns.peaks(row)), default=0)
    memory = f"{peak / 2**20:,.0f} MiB" if peak else ""
    return [*cells, " / ".join(decoded), " / ".join(cpu), memory]


def _speed(row: Row) -> str:
    if row.failure:
        return failed(row)
    if row.equality and not row.equality.holds:
        bad = row.equality.missing + row.equality.wrong
        return f"wrong frames: {bad:,} of {row.equality.frames:,}"
    if not row.repeats:
        return "not timed"
    return spread([repeat.frames_per_second for repeat in row.repeats], ",.0f")


def _cpu_ms(row: Row) -> list[float]:
    return [found for each in row.repeats if (found := each.cpu_ms_per_frame) is not None]
