"""Markdown tables of results, and the notes below them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import TypeVar

from benchmarks.record import AnyTimed, Result, Row, Timed, TimedResult, Tried, ratios
from headrace.profiling.provenance import Provenance

T = TypeVar("T")
DISTURBED = 0.05
"""Min CPU share of other programs for a run to count as disturbed."""


def table(header: Sequence[str], lines: Iterable[Sequence[str]], *notes: str) -> str:
    """Return a Markdown table with notes below; all columns but the first are right-aligned."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in [header, rule, *lines])
    return "\n".join([text, "", *notes]) if notes else text


def rendered(
    rows: Iterable[T], columns: Mapping[str, Callable[[T], str]], *notes: str, labels: int = 1
) -> str:
    """Return one line per row, and notes below the table.

    A `Tried` row without figures shows the reason instead.

    Args:
        rows: Values, one per line.
        columns: Header → function of a row that returns its cell.
        notes: Lines below the table.
        labels: Columns at the left that name a row and are shown without figures, too.
    """
    lines = []
    for row in rows:
        missing = row.missing if isinstance(row, Tried) else ""
        shown = [*columns.values()][: labels if missing else None]
        cells = [cell(row) for cell in shown] + [missing] * bool(missing)
        lines.append(cells + [""] * (len(columns) - len(cells)))
    return table([*columns], lines, *notes)


def spread(values: Sequence[float], form: str) -> str:
    """Return `median (min–max)`; empty without values."""
    if not values:
        return ""
    return f"{median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


def known(row: AnyTimed | None, draw: Callable[[AnyTimed], str]) -> str:
    """Return the table cell of a row, or the reason there is none."""
    return "not measured" if row is None else row.missing or draw(row)


def figure(value: float | None, form: str = ",.2f") -> str:
    """Return a number as a table cell; empty for None."""
    return "" if value is None else f"{value:{form}}"


def yes(is_so: bool) -> str:
    """Return a table cell of a boolean."""
    return "yes" if is_so else "**no**"


def machine(source: Result | Provenance) -> str:
    """Return machine, headrace version and date of a result, or of one part of it."""
    origin = source.provenance if isinstance(source, Result) else source
    about = origin.machine
    return (
        f"{about.cpu}, {about.usable_cores} cores, {about.memory_bytes / 2**30:.0f} GiB; "
        f"{about.system.partition(',')[0]}; {about.python}; "
        f"headrace at {origin.commit or origin.headrace}, {origin.created:%Y-%m-%d}."
    )


def others(rows: Iterable[Timed]) -> str:
    """Return a sentence on the CPU time of other programs."""
    values = [share for row in rows for share in row.values("others_share")]
    disturbed = sum(share > DISTURBED for share in values)
    return (
        f"Other programs used more than {DISTURBED:.0%} of the CPU time in {disturbed} of "
        f"{len(values)} runs, at most {max(values, default=0):.0%}."
    )


def media(result: Result) -> str:
    """Return a sentence on the media and the frame size."""
    height, width = result.media["recipe"]["size"]
    kinds = "; ".join(
        f"*{kind}*: {about['videos']} videos, {about['frames']:,} frames, mean GOP "
        f"{about['mean_gop']:.0f}, {about['b_frame_share']:.0%} B-frames"
        for kind, about in result.media["kinds"].items()
    )
    return f"H.264, {width}×{height} to {size(result)} RGB. {kinds}."


def size(result: Result) -> str:
    """Return width × height of the delivered frames."""
    height, width = str(result.provenance.configuration["size"]).split(",")
    return f"{width}×{height}"


def budget(result: Result) -> str:
    """Return the memory budget with a space before its unit: `1 GiB`."""
    return re.sub(r"(?<=\d)(?=\D)", " ", str(result.provenance.configuration["memory_budget"]))


def versions(rows: Iterable[Row]) -> str:
    """Return the versions of all entrants, each set once."""
    values = [", ".join(map(" ".join, row.versions.items())) for row in rows]
    return f"{'; '.join(dict.fromkeys(filter(None, values)))}."


def comparison(
    result: TimedResult,
    lines: Sequence[Sequence[Row]],
    names: Mapping[str, str],
    *,
    limit: str,
    heads: tuple[str, str, str],
    digits: int,
    peaks: Callable[[Row], Sequence[float]],
    rounds: str,
    reference: str,
    exact: str = "",
    unmeasured: str,
) -> str:
    """Return one line per entrant: rate and ratio per kind of media, then its cost; notes below.

    Args:
        result: Result, for the notes.
        lines: Rows of each entrant, one per kind of media.
        names: Entrant → name in the table.
        limit: Name of the entrant that ratios refer to.
        heads: Headers of the first column, the ratio and the memory.
        digits: Decimals of the ratio and of CPU milliseconds.
        peaks: Returns peak bytes of a row; the table shows their maximum.
        rounds: Note on the rounds.
        reference: Origin of the reference frames.
        exact: End of the sentence on equal frames.
        unmeasured: Cases without measurements.
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
        decoded = [figure(row.amplification) for row in sound if row.amplification is not None]
        cpu = [
            f"{median(ms):.{digits}f}" for row in sound if (ms := row.values("cpu_ms_per_frame"))
        ]
        peak = max((peak for row in sound for peak in peaks(row)), default=0)
        shown = f"{peak / 2**20:,.0f} MiB" if peak else ""
        cells[-1] += [" / ".join(decoded), " / ".join(cpu), shown]
    values = [row.equality.max_mean_difference for row in result.rows if row.equality]
    notes = [
        rounds,
        media(result),
        f"Before timing, frames were compared with {reference}: the mean difference of a frame is "
        f"at most {max(values, default=0):.2f} gray levels{exact}.",
        f"{others(result.rows)} {machine(result)}",
        versions(result.rows),
        f"Not measured: {unmeasured}.",
    ]
    return table(header, cells, *notes)


def by_name(result: TimedResult) -> list[list[Row]]:
    """Return the rows of each entrant, one per kind of media."""
    names = dict.fromkeys(row.name for row in result.rows)
    return [[row for row in result.rows if row.name == name] for name in names]


def quickest_first(lines: Sequence[list[Row]]) -> list[list[Row]]:
    """Return entrants sorted by their rate on the first kind of media, the fastest first."""
    return sorted(lines, key=lambda rows: -rows[0].speed)
