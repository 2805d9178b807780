"""Entrants beside each other on each kind of media: every frame in order, random frames, clips."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.record import Row, TimedResult
from benchmarks.runner import REFERENCE
from benchmarks.tables.markdown import failed, machine, media, others, spread, table, versions

LIBRARIES = {
    "pyav_loop": "bare PyAV loop (the limit)",
    "headrace": "**headrace**",
    "spdl": "SPDL",
    "decord": "decord",
    "torchcodec": "torchcodec",
    "opencv_linear": "OpenCV, bilinear without antialiasing",
    "opencv": "OpenCV, area",
}
WAYS = {
    "baseline": "DataLoader, 2 workers, PyAV: open and seek for each frame",
    "baseline_kept": "the same, files kept open",
    "baseline_clips": "DataLoader, 2 workers, PyAV: files kept open, a seek for each clip",
    "opencv": "OpenCV, captures kept, grouped by file",
    "decord": "decord, readers kept, grouped by file",
    "spdl": "SPDL, packets kept, grouped by file",
    "torchcodec": "torchcodec, decoders kept, grouped by file",
    "headrace_naive": "headrace, looking no further than now",
    "headrace_256MiB": "**headrace**, 256 MiB",
    "headrace_256MiB_yuv420": "**headrace**, 256 MiB, held as YUV 4:2:0",
    "headrace_1GiB": "**headrace**, 1 GiB",
    "headrace_bursts_256MiB": "**headrace**, `Bursts` of 8 (other samples), 256 MiB",
}


@dataclass(frozen=True)
class _Columns:
    """What one such table shows beside the speeds."""

    names: Mapping[str, str]
    name: str
    """Head of the first column."""
    limit: str
    """Name of the entrant that the others are divided by."""
    ratio: str
    digits: int
    """Of the ratio."""
    cpu_digits: int
    memory: str
    peaks: Callable[[Row], Sequence[float]]
    """Bytes; the greatest of all is shown."""


def sequential(result: TimedResult) -> str:
    """One line per library, the quickest on the first kind of media on top."""
    columns = _Columns(
        names=LIBRARIES,
        name="library",
        limit=REFERENCE,
        ratio="of the limit",
        digits=2,
        cpu_digits=2,
        memory="peak memory",
        peaks=lambda row: [median(each.peak_rss_bytes or 0 for each in row.repeats)],
    )
    lines = quickest_first(by_name(result))
    said = result.provenance.configuration
    notes = [
        f"Median of {said['repeats']} interleaved rounds (lowest–highest), each library in its own "
        f"process on the same {said['workers']} cores; *of the limit* is the median of the ratios "
        "within a round.",
        media(result),
        "Equal frames were proved first: none differs from the limit's by more than "
        f"{_difference(result):.2f} grey levels in the mean.",
        f"{others(result.rows)} {machine(result)}",
        versions(result.rows),
        "Not measured: other codecs, 10-bit video, decoding on a GPU, other numbers of cores.",
    ]
    return "\n\n".join([_compared(lines, columns), "\n".join(notes)])


def random_access(result: TimedResult) -> str:
    """One line per way, in the order they were timed; how many times the first line each is."""
    columns = _Columns(
        names=WAYS,
        name="way",
        limit=result.rows[0].name,
        ratio="times the first",
        digits=1,
        cpu_digits=1,
        memory="memory",
        peaks=_peaks_of_one_process,
    )
    said = result.provenance.configuration
    frames, _, stride = str(said.get("clip") or "").partition(",")
    what = f"clips of {frames} frames, {stride} apart" if frames else "frames"
    notes = [
        f"Batches of {said['batch_size']} {what}, drawn uniformly: the same ones for all. Median "
        f"of {said['repeats']} interleaved rounds (lowest–highest) of at least "
        f"{said['seconds']:g} s each, every way in its own process on the same {said['workers']} "
        "cores, in a steady state: after one batch, and for headrace after as many frames as it "
        "looks ahead. *Times the first* is the median of the ratios within a round. Memory is the "
        "peak above what the process had before, without worker processes.",
        media(result),
        "Equal frames were proved first: none differs from a linear decode by more than "
        f"{_difference(result):.2f} grey levels in the mean; {_exact(result)}.",
        f"{others(result.rows)} {machine(result)}",
        versions(result.rows),
        "Not measured: the first frames, until the look-ahead is filled; files that are not in "
        "the page cache; a model that computes beside the decoders.",
    ]
    return "\n\n".join([_compared(by_name(result), columns), "\n".join(notes)])


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


def _compared(lines: Sequence[Sequence[Row]], columns: _Columns) -> str:
    kinds = list(dict.fromkeys(row.kind for rows in lines for row in rows))
    limits = {row.kind: row for rows in lines for row in rows if row.name == columns.limit}
    header = [columns.name]
    for kind in kinds:
        header += [f"{kind}: frames/s", columns.ratio]
    together = " / ".join(kinds)
    header += [f"amplification ({together})", f"CPU ms per frame ({together})", columns.memory]
    return table(header, [_line(rows, limits, columns) for rows in lines])


def _line(rows: Sequence[Row], limits: Mapping[str, Row], columns: _Columns) -> list[str]:
    cells = [columns.names.get(rows[0].name, rows[0].name)]
    for row in rows:
        share = ratio(row, limits.get(row.kind))
        cells += [_speed(row), "" if share is None else f"{share:.{columns.digits}f}"]
    timed = [row for row in rows if row.repeats]
    decoded = [f"{each:.2f}" for row in timed if (each := row.amplification) is not None]
    cpu = [f"{median(ms):.{columns.cpu_digits}f}" for row in timed if (ms := _cpu_ms(row))]
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


def _peaks_of_one_process(row: Row) -> Sequence[float]:
    """Nothing of a DataLoader, whose memory is spread over its workers."""
    if row.name.startswith("baseline"):
        return []
    return [each.memory_bytes or 0 for each in row.repeats]


def _difference(result: TimedResult) -> float:
    found = [row.equality.max_mean_difference for row in result.rows if row.equality]
    return max(found, default=0)


def _exact(result: TimedResult) -> str:
    """Which ways gave the very pixels of the linear decode."""
    differs = {r.name for r in result.rows if r.equality and r.equality.max_mean_difference}
    ours = dict.fromkeys(r.name for r in result.rows if r.name.startswith("headrace"))
    exact = [WAYS.get(name, name).replace("**", "") for name in ours if name not in differs]
    return f"by none: {'; '.join(exact)}" if exact else "all differ"
