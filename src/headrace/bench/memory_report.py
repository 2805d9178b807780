"""What `bench memory` shows: the table, what fits, and what each further frame takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import Final

from headrace.bench.benchmark import Benchmark
from headrace.bench.charts import chart, dashed, line
from headrace.bench.memory import (
    CellRecord,
    MemoryConfig,
    MemoryRecord,
    Precision,
    announce,
    measure_memory,
)
from headrace.bench.suite.suite_spec import Terms
from headrace.measuring.interleaved import grouped
from headrace.profiling.findings.finding import Change, Finding
from headrace.report.drawing import MARK, Chart
from headrace.report.experiment import Column
from headrace.report.numbers import count, decimal, gibibytes

_MIB: Final = 2**20
_COLORS: Final = ("#7389ab", "#5ea58c", "#d9a253", "#d9536a", "#9b7fc0")
"""Of the sizes, the smallest first."""
_TOO_MUCH: Final = ("over_limit", "out_of_memory")


@dataclass(frozen=True, kw_only=True)
class MemoryRow:
    """One precision and batch size."""

    precision: Precision
    batch_size: int
    cells: tuple[CellRecord, ...]
    """One for each size of frames."""
    limit_bytes: int
    on_gpu: bool


Rows = tuple[MemoryRow, ...]


def rows_of(record: MemoryRecord) -> tuple[MemoryRow, ...]:
    """Return a row for each precision and batch size, in the order they were asked for."""
    groups = grouped(record.cells, lambda cell: (cell.precision, cell.batch_size))
    return tuple(
        MemoryRow(
            precision=precision,
            batch_size=batch_size,
            cells=tuple(cells),
            limit_bytes=record.limit_bytes,
            on_gpu=record.device == "cuda",
        )
        for (precision, batch_size), cells in groups.items()
    )


def _answer(record: MemoryRecord, rows: Rows) -> tuple[Finding, ...]:
    precision = rows[0].precision
    cells = [row.cells[-1] for row in rows if row.precision == precision]
    fitting = [cell for cell in cells if cell.status == "measured"]
    too_much = [cell for cell in cells if cell.status in _TOO_MUCH]
    allowed, at = gibibytes(record.limit_bytes), f"at {record.sizes[-1].name} in {precision}"
    if too_much:
        would = "do" if too_much[0].status == "out_of_memory" else "would"
        short = f"batches of {too_much[0].batch_size} {would} not fit into {allowed}"
        fits = f"; of {fitting[-1].batch_size} they do" if fitting else ", and nothing smaller ran"
        headline = f"Frames {at}: {short}{fits}"
    elif fitting:
        most = max(fitting, key=lambda cell: _bytes(cell))
        headline = (
            f"All fit into {allowed}: batches of {most.batch_size} {at} take "
            f"{gibibytes(_bytes(most))}"
        )
    else:
        headline = f"What batches {at} take is not known: none could be run"
    is_kept = record.not_kept is None
    words = "headrace run --batch-size auto, which starts from these figures"
    return (
        Finding(
            headline=headline,
            evidence=tuple(_evidence(record, rows)),
            change=f"{words} for this model." if is_kept else None,
            advice=Change(words=words, rests_on="what batches took here") if is_kept else None,
        ),
    )


def _evidence(record: MemoryRecord, rows: Rows) -> Iterator[str]:
    on_gpu = record.device == "cuda"
    yield (
        "Measured on the GPU: what PyTorch reserved, with tensors of what was allocated; frames, "
        "preprocessing and model all lie there."
        if on_gpu
        else "Measured on the CPU, as there is no other figure here: the peak of a whole process, "
        "Python and PyTorch included."
    )
    if base := max(row.cells[0].base_bytes or 0 for row in rows):
        held = "the model" if on_gpu else "Python, PyTorch and the model"
        yield f"Before the first batch {gibibytes(base)} are held: {held}."
    if growth := list(_growth(record, rows)):
        yield f"Each further frame in a batch takes, in {rows[0].precision}: {', '.join(growth)}."
    yield from _saving(rows)
    statuses = {cell.status for row in rows for cell in row.cells}
    if "over_limit" in statuses:
        yield (
            "“> limit” was not run: by the batches before it, it would take more than the "
            f"{gibibytes(record.limit_bytes)} that --max-memory allows."
        )
    if "out_of_memory" in statuses:
        yield "“no memory” was run and ran out of it, or a smaller batch had."
    failed = {cell.why for row in rows for cell in row.cells if cell.status == "failed"}
    for why in sorted(filter(None, failed)):
        yield f"Not measured: {why}."
    if record.not_kept is None:
        yield "The table is kept for this device, model and PyTorch; with others it is not used."
    else:
        yield f"The table is not kept for --batch-size auto: {record.not_kept}."


def _growth(record: MemoryRecord, rows: Rows) -> Iterator[str]:
    """Yield what a further frame takes, of each size in the first precision."""
    for place, size in enumerate(record.sizes):
        known = [
            (row.batch_size, _bytes(row.cells[place]))
            for row in rows
            if row.precision == rows[0].precision and row.cells[place].status == "measured"
        ]
        if len(known) > 1:
            (low, less), (high, more) = known[-2:]
            yield f"{size.name} {decimal(max(0, more - less) / (high - low) / _MIB)} MiB"


def _saving(rows: Rows) -> Iterator[str]:
    """Yield what 16 bits take of what 32 do, by the largest batch that both were run with."""
    cells = [cell for row in rows for cell in row.cells if cell.status == "measured"]
    first = {(c.batch_size, c.size): c for c in cells if c.precision == rows[0].precision}
    others = [c for c in cells if c.precision != rows[0].precision]
    for precision, own in grouped(others, lambda cell: cell.precision).items():
        pairs = [
            (first[cell.batch_size, cell.size], cell)
            for cell in own
            if (cell.batch_size, cell.size) in first
        ]
        if pairs:
            mine, theirs = max(pairs, key=lambda pair: _bytes(pair[0]))
            yield (
                f"{precision} takes {decimal(_bytes(theirs) / _bytes(mine))} times what "
                f"{mine.precision} takes with batches of {mine.batch_size} at {mine.size}."
            )


def _columns(rows: Rows) -> tuple[Column[MemoryRow], ...]:
    def size(place: int, cell: CellRecord) -> Column[MemoryRow]:
        return Column(cell.size, lambda row: _text(row.cells[place]))

    return (
        Column("precision × batch", lambda row: f"{row.precision} × {row.batch_size}"),
        *starmap(size, enumerate(rows[0].cells)),
    )


def _text(cell: CellRecord) -> str:
    if cell.status == "over_limit":
        return "> limit"
    if cell.status == "out_of_memory":
        return "no memory"
    if cell.peak_bytes is None:
        return "failed"
    peak = count(round(cell.peak_bytes / _MIB))
    if cell.allocated_bytes is None:
        return peak
    return f"{count(round(cell.allocated_bytes / _MIB))}/{peak}"


def _bytes(cell: CellRecord) -> int:
    return cell.peak_bytes or 0


def _chart(rows: Rows, precision: str) -> Chart:
    own = [row for row in rows if row.precision == precision]
    batches = [row.batch_size for row in own]
    lines, highest = [], 0.0
    for place, color in zip(range(len(own[0].cells)), _COLORS, strict=False):
        cells = [row.cells[place] for row in own]
        peaks = [None if cell.peak_bytes is None else cell.peak_bytes / _MIB for cell in cells]
        highest = max([highest, *(peak for peak in peaks if peak is not None)])
        hover = "%{y:,.0f} MiB<extra>batches of %{x}</extra>"
        lines.append(line(cells[0].size, batches, peaks, color, hover=hover))
    limit = own[0].limit_bytes / _MIB
    if highest > limit / 3:  # elsewhere it would press all lines to the ground
        name = f"limit, {gibibytes(own[0].limit_bytes)}"
        lines.append(dashed(MARK, x=[batches[0], batches[-1]], y=[limit] * 2, name=name))
    of = "reserved on the GPU" if own[0].on_gpu else "of the process"
    return chart(
        lines,
        name=f"memory-{precision}",
        title=f"Memory by batch size, {precision}",
        reading="A line for each size of the frames: how steep it is, is what each further frame "
        "takes. It ends where more does not fit.",
        height=340,
        x={"title_text": "frames in a batch", "tickvals": batches},
        y=f"peak memory {of}, MiB",
    )


MEMORY: Final[Benchmark[MemoryConfig, MemoryRecord, MemoryRow]] = Benchmark(
    name="memory",
    summary="Measure what memory batches take, by frame size, batch size and precision.",
    config=MemoryConfig,
    record=MemoryRecord,
    measure=measure_memory,
    announce=announce,
    title=lambda record: (
        f"Peak memory of {record.model} in MiB, "
        + (f"on {record.device_name}" if record.device == "cuda" else "of a process on the CPU")
    ),
    rows=rows_of,
    columns=_columns,
    reading=lambda record, rows: (
        ("Allocated by tensors/reserved by PyTorch, MiB of the GPU. " if rows[0].on_gpu else "")
        + "A column for each size of the frames, which are made here as a decoder gives them "
        f"(uint8), preprocessed ({record.provenance.configuration.get('prep_level')}) and seen by "
        "the model."
    ),
    answer=_answer,
    charts=lambda rows: tuple(
        _chart(rows, precision) for precision in dict.fromkeys(row.precision for row in rows)
    ),
    terms=Terms(
        config=lambda videos: MemoryConfig(videos=videos[:1], sizes=("720p", "1080p")),
        goes_last=True,
    ),
)
