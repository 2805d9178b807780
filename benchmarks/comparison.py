"""Entrants beside each other on each kind of media."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from benchmarks.markdown import spread, table
from benchmarks.record import Row, TimedResult, ratios


def comparison(
    lines: Sequence[Sequence[Row]],
    names: Mapping[str, str],
    *,
    limit: str,
    heads: tuple[str, str, str],
    digits: int,
    peaks: Callable[[Row], Sequence[float]],
) -> str:
    """One line per entrant: speed and ratio on each kind of media, then what it costs.

    Args:
        lines: Of each entrant, a row for each kind of media.
        names: What the table calls the entrants.
        limit: Name of the entrant that the others are divided by.
        heads: Of the first column, of the ratio, and of the memory.
        digits: Of the ratio, and of CPU milliseconds.
        peaks: Bytes of a row; the greatest of all is shown.
    """
    kinds = list(dict.fromkeys(row.kind for rows in lines for row in rows))
    limits = {row.kind: row for rows in lines for row in rows if row.name == limit}
    first, share, memory = heads
    together = " / ".join(kinds)
    header = [first, *(head for kind in kinds for head in (f"{kind}: frames/s", share))]
    header += [f"amplification ({together})", f"CPU ms per frame ({together})", memory]
    cells = []
    for rows in lines:
        cells.append([names.get(rows[0].name, rows[0].name)])
        for row in rows:
            shares = ratios(row, limits.get(row.kind), "frames_per_second")
            speed = row.missing or spread(row.values("frames_per_second"), ",.0f")
            cells[-1] += [speed, f"{median(shares):.{digits}f}" if shares else ""]
        sound = [row for row in rows if row.repeats]
        decoded = [f"{each:.2f}" for row in sound if (each := row.amplification) is not None]
        cpu = [
            f"{median(ms):.{digits}f}" for row in sound if (ms := row.values("cpu_ms_per_frame"))
        ]
        peak = max((each for row in sound for each in peaks(row)), default=0)
        shown = f"{peak / 2**20:,.0f} MiB" if peak else ""
        cells[-1] += [" / ".join(decoded), " / ".join(cpu), shown]
    return table(header, cells)


def by_name(result: TimedResult) -> list[list[Row]]:
    """The rows of each entrant, one for each kind of media."""
    names = dict.fromkeys(row.name for row in result.rows)
    return [[row for row in result.rows if row.name == name] for name in names]


def quickest_first(lines: Sequence[list[Row]]) -> list[list[Row]]:
    """By the speed on the first kind of media."""
    return sorted(lines, key=lambda rows: -rows[0].speed)


def difference(result: TimedResult) -> float:
    """The greatest mean difference of any frame from the reference's."""
    found = [row.equality.max_mean_difference for row in result.rows if row.equality]
    return max(found, default=0)
