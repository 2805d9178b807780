"""Memory benchmark: peak memory of batches by frame size, batch size and precision."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

from pydantic import NonNegativeInt, PositiveInt

from headrace.bench.benchmark import Benchmark, BenchmarkRecord, SuiteSpec, deferred
from headrace.bench.charts import COLORS, Line, lines
from headrace.bench.config import ModelName, ThreadedModelConfig
from headrace.config_fields import Option, VideoArgument
from headrace.errors import ConfigError
from headrace.measuring.interleaved import grouped
from headrace.models.compute import Precision
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import count, counted, decimal, gibibytes, seconds
from headrace.profiling.provenance import Record
from headrace.report.benchmark_page import Column
from headrace.report.page import Chart
from headrace.units import parse_bytes

RUN_MODEL: Final = "mobilenet_v2"
"""Default model of `headrace run`, which reads these figures for `--batch-size auto`."""
ROW_SECONDS: Final = 120.0
"""Seconds for the batches of one precision and one frame size."""


@dataclass(frozen=True, kw_only=True)
class MemoryConfig(ThreadedModelConfig):
    """Options of `bench memory`."""

    videos: Annotated[
        tuple[str, ...],
        VideoArgument("Videos; their largest frame size is measured too.", is_needed=False),
    ] = ()
    model_name: ModelName = RUN_MODEL
    sizes: Annotated[tuple[Literal["360p", "720p", "1080p", "4K"], ...], Option("Frame sizes.")] = (
        "360p",
        "720p",
        "1080p",
        "4K",
    )
    batch_sizes: Annotated[tuple[int, ...], Option("Batch sizes.", least=1)] = (1, 4, 16)
    precisions: Annotated[
        tuple[Literal["auto", "float32", "float16", "bfloat16"], ...],
        Option("float32, float16, bfloat16; auto: float32 and the 16-bit ones of the device."),
    ] = ("auto",)
    max_memory: Annotated[
        str | None,
        Option("Limit, such as 4GiB; default: 1/4 of free main memory, 9/10 of a GPU's."),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sizes or not self.precisions:
            raise ConfigError("sizes and precisions need at least one value each, got none")
        if self.max_memory is not None:
            parse_bytes(self.max_memory)


def announce(config: MemoryConfig) -> str:
    """Return the estimated time as text."""
    precisions = len(config.precisions) + ("auto" in config.precisions)
    max_rows = precisions * (len(config.sizes) + bool(config.videos))
    return (
        f"Time: a few seconds for each of {counted(max_rows, 'row')} of batches, at most "
        f"{seconds(ROW_SECONDS)} each"
    )


Status = Literal["measured", "over_limit", "out_of_memory", "failed"]


class SizeRecord(Record):
    """One frame size: a column of the table."""

    name: str
    """`720p`, or the height and width of a video: `360x480`."""
    height: PositiveInt
    width: PositiveInt


class CellRecord(Record):
    """Peak memory of one batch."""

    size: str
    """Name of the frame size."""
    batch_size: PositiveInt
    precision: Precision
    status: Status
    """`over_limit`: predicted above the limit, not run; `out_of_memory`: this or a smaller batch
    did not fit."""
    peak_bytes: NonNegativeInt | None = None
    """Peak: memory reserved by PyTorch on the GPU; memory of the whole process on the CPU."""
    allocated_bytes: NonNegativeInt | None = None
    """Peak allocated by tensors on the GPU; None on the CPU."""
    model_bytes: NonNegativeInt | None = None
    """Peak reserved for the model alone on a preprocessed batch; None on the CPU."""
    predicted_bytes: NonNegativeInt | None = None
    """Predicted peak, if the batch was not run."""
    base_bytes: NonNegativeInt | None = None
    """Memory before the first batch: the model, and on the CPU also Python and PyTorch."""
    why: str | None = None
    """Reason of a failure."""


class MemoryRecord(BenchmarkRecord):
    """Peaks of all batches."""

    model: str
    device: Literal["cpu", "cuda"]
    device_name: str
    limit_bytes: PositiveInt
    """Max total memory of a batch."""
    sizes: tuple[SizeRecord, ...]
    cells: tuple[CellRecord, ...]
    not_kept: str | None
    """Reason `--batch-size auto` cannot use the record; None: it can."""


_MIB: Final = 2**20
_TOO_MUCH: Final = ("over_limit", "out_of_memory")


Row = Sequence[CellRecord]
"""Batches of one precision and batch size, one per frame size."""
Rows = tuple[Row, ...]


def rows_of(record: MemoryRecord) -> Rows:
    """Return one row per precision and batch size, in request order."""
    groups = grouped(record.cells, lambda cell: (cell.precision, cell.batch_size))
    return tuple(groups.values())


def _answer(record: MemoryRecord, rows: Rows) -> tuple[Finding, ...]:
    precision = rows[0][0].precision
    cells = [row[-1] for row in rows if row[0].precision == precision]
    fitting = [cell for cell in cells if cell.status == "measured"]
    too_much = [cell for cell in cells if cell.status in _TOO_MUCH]
    allowed, size = gibibytes(record.limit_bytes), f"{record.sizes[-1].name} in {precision}"
    if too_much:
        would = "does" if too_much[0].status == "out_of_memory" else "would"
        short = f"a batch of {too_much[0].batch_size} {would} not fit into {allowed}"
        fits = f"; a batch of {fitting[-1].batch_size} fits" if fitting else "; no smaller one ran"
        headline = f"At {size}, {short}{fits}"
    elif fitting:
        largest = max(fitting, key=_bytes)
        headline = (
            f"All batches fit into {allowed}: a batch of {largest.batch_size} at {size} takes "
            f"{gibibytes(_bytes(largest))}"
        )
    else:
        headline = f"The memory of batches at {size} is unknown: none could be run"
    finding = Finding(headline=headline, evidence=tuple(_evidence(record, rows)))
    if record.not_kept is None:
        words = "headrace run --batch-size auto, which starts from these figures"
        advice = Change(words=words, evidence="peak memory of these batches")
        finding = replace(finding, change=f"{words}.", advice=advice)
    return (finding,)


def _evidence(record: MemoryRecord, rows: Rows) -> Iterator[str]:
    if record.device == "cuda":
        base_parts = "the model"
        yield (
            "Measured on the GPU: memory allocated by tensors, and memory reserved by PyTorch, for "
            "frames, preprocessing and model."
        )
    else:
        base_parts = "Python, PyTorch and the model"
        yield (
            "Measured on the CPU: the peak memory of a whole process, including Python and PyTorch."
        )
    if base := max(row[0].base_bytes or 0 for row in rows):
        yield f"Memory before the first batch: {gibibytes(base)} ({base_parts})."
    first = rows[0][0].precision
    if growth := list(_growth(record, [row for row in rows if row[0].precision == first])):
        yield f"Memory per further frame of a batch, in {first}: {', '.join(growth)}."
    yield from _compare_precisions(
        [cell for cell in record.cells if cell.status == "measured"], first
    )
    statuses = {cell.status for cell in record.cells}
    if "over_limit" in statuses:
        yield (
            "“> limit”: not run, because the prediction from smaller batches exceeds "
            f"{gibibytes(record.limit_bytes)} (--max-memory)."
        )
    if "out_of_memory" in statuses:
        yield "“no memory”: this batch or a smaller one ran out of memory."
    failed = {cell.why for cell in record.cells if cell.status == "failed"}
    for reason in sorted(filter(None, failed)):
        yield f"Not measured: {reason}."
    if record.not_kept is None:
        yield "The table is stored for this device, model and PyTorch version only."
    else:
        yield f"The table is not stored for --batch-size auto: {record.not_kept}."


def _growth(record: MemoryRecord, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the memory per additional frame, for each frame size."""
    for size, cells in zip(record.sizes, zip(*rows, strict=True), strict=True):
        known = [cell for cell in cells if cell.status == "measured"]
        if len(known) > 1:
            less, more = known[-2:]
            frames = more.batch_size - less.batch_size
            yield f"{size.name} {decimal(max(0, _bytes(more) - _bytes(less)) / frames / _MIB)} MiB"


def _compare_precisions(cells: Sequence[CellRecord], first: Precision) -> Iterator[str]:
    """Yield the memory in 16 bits ÷ in 32 bits, for the largest batch run in both."""
    known = {(cell.size, cell.batch_size): cell for cell in cells if cell.precision == first}
    both = [cell for cell in cells if (cell.size, cell.batch_size) in known]
    for precision, group in grouped(both, lambda cell: cell.precision).items():
        cell_16 = max(group, key=lambda cell: _bytes(known[cell.size, cell.batch_size]))
        reference = known[cell_16.size, cell_16.batch_size]
        if precision != first:
            yield (
                f"{precision} takes {decimal(_bytes(cell_16) / _bytes(reference))} times the "
                f"memory of {reference.precision}, for a batch of {reference.batch_size} at "
                f"{reference.size}."
            )


def _columns(record: MemoryRecord) -> tuple[Column[Row], ...]:
    def size(column: int) -> Column[Row]:
        return Column(record.sizes[column].name, lambda row: _text(row[column]))

    batch = Column[Row](
        "precision × batch", lambda row: f"{row[0].precision} × {row[0].batch_size}"
    )
    return (batch, *map(size, range(len(record.sizes))))


def _text(cell: CellRecord) -> str:
    if cell.peak_bytes is None:
        return {"over_limit": "> limit", "out_of_memory": "no memory"}.get(cell.status, "failed")
    known = [number for number in (cell.allocated_bytes, cell.peak_bytes) if number is not None]
    return "/".join(count(round(number / _MIB)) for number in known)


def _bytes(cell: CellRecord) -> int:
    return cell.peak_bytes or 0


def _chart(record: MemoryRecord, rows: Rows) -> Chart:
    """Return the chart of one precision."""
    precision, batches = rows[0][0].precision, [row[0].batch_size for row in rows]
    # A distant limit would flatten all lines.
    is_near = max(_bytes(cell) for row in rows for cell in row) > record.limit_bytes / 3
    limit = {f"limit, {gibibytes(record.limit_bytes)}": record.limit_bytes / _MIB}
    return lines(
        [
            Line(
                cells[0].size,
                [
                    (cell.batch_size, None if cell.peak_bytes is None else cell.peak_bytes / _MIB)
                    for cell in cells
                ],
                color=color,
            )
            for cells, color in zip(zip(*rows, strict=True), COLORS, strict=False)
        ],
        name=f"memory-{precision}",
        title=f"Memory by batch size, {precision}",
        reading="Peak memory, one line per frame size. The slope is the memory per further frame; "
        "a line ends where larger batches do not fit.",
        x={"title_text": "frames in a batch", "tickvals": batches},
        y="MiB",
        limits=limit if is_near else None,
    )


MEMORY: Final[Benchmark[MemoryConfig, MemoryRecord, Row]] = Benchmark(
    name="memory",
    summary="Measure the peak memory of batches by frame size, batch size and precision.",
    config=MemoryConfig,
    record=MemoryRecord,
    measure=deferred("memory_processes:measure_memory"),
    announce=announce,
    title=lambda record: (
        f"Peak memory of {record.model} in MiB, "
        + (f"on {record.device_name}" if record.device == "cuda" else "of a process on the CPU")
    ),
    rows=rows_of,
    columns=_columns,
    reading=lambda record, rows: (
        (
            "Allocated by tensors/reserved by PyTorch, MiB of the GPU. "
            if record.device == "cuda"
            else ""
        )
        + "One column per frame size. Synthetic frames (uint8, as from a decoder) are preprocessed "
        f"({record.provenance.configuration.get('prep_level')}) and run through the model."
    ),
    answer=_answer,
    charts=lambda record, rows: tuple(
        _chart(record, tuple(group))
        for group in grouped(rows, lambda row: row[0].precision).values()
    ),
    names_machine=False,
    terms=SuiteSpec(
        config=lambda videos: MemoryConfig(videos=videos[:1], sizes=("720p", "1080p")),
        goes_last=True,
    ),
)
