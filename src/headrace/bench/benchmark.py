"""Definition of a benchmark: measurement, record, page and CSV."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, Generic, Literal, TypeVar

from pydantic import PositiveInt

from headrace.atomic_file import write_whole
from headrace.config_fields import Configuration
from headrace.decode.index_store import IndexStore
from headrace.errors import file_errors
from headrace.measuring.interleaved import (
    NoiseCheck,
    OnProgress,
    OnWord,
    RepeatSpread,
    Repetition,
    RepetitionRow,
    Timed,
    unheard,
    unseen,
)
from headrace.profiling.findings.finding import Finding
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import Provenance, Record
from headrace.profiling.run_records import Role
from headrace.report.benchmark_page import BenchmarkPage, Column, render_benchmark, table
from headrace.report.page import Chart
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.distribution import Distribution
from headrace.video.source import refuse_address

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


class BenchmarkRecord(Record):
    """Measured data of a benchmark; its page is a pure function of it."""

    version: PositiveInt = 1
    """Version of this layout."""
    provenance: Provenance
    spread: RepeatSpread | None = None
    """Spread of the rates over the repetitions; None without repeats, and in old records."""

    @property
    def cores(self) -> int:
        """Usable cores of the machine."""
        return self.provenance.machine.usable_cores

    def noise(self, rows: Sequence[Timed]) -> NoiseCheck:
        """Return the noise check of at least one row."""
        return NoiseCheck(rows=rows, cores=self.cores)


Config = TypeVar("Config", bound=Configuration)
Recorded = TypeVar("Recorded", bound=BenchmarkRecord)
Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True)
class Context:
    """Environment of a measurement: progress, index store, clock, output folder."""

    command: Sequence[str] = ()
    """Command line, if any."""
    on_progress: OnProgress = unseen
    """Called before each repetition."""
    on_word: OnWord = unheard
    """Called with the estimated total time, before the first repetition."""
    store: IndexStore | None = None
    """Index store; None: the user's cache folder."""
    clock: Clock = SYSTEM_CLOCK
    out: Path | None = None
    """Output folder, for files besides the record; None: no files."""

    def provenance(self, config: Configuration, **chosen: object) -> Provenance:
        """Return the provenance of a record.

        Options come from `config`; `chosen` has the values chosen for open options.
        """
        return provenance({**options_of(config), **chosen}, self.command, self.clock)


Concern = Role | Literal["loading"]
"""Part that a gain applies to: a stage of a run, or the loading of a training loop."""


@dataclass(frozen=True, kw_only=True)
class StageWork:
    """Sequential work of one stage on a frame."""

    ms: float
    """Wall time."""
    cpu_ms: float
    """CPU time: more than wall time on several cores, less with a GPU."""


def alone_ms(role: Role, work: StageWork, cores: int) -> float:
    """Return the milliseconds between frames of a stage that never waits.

    A run decodes with one thread per core and has one thread for each other stage.
    """
    return work.ms / cores if role == "decode" else work.ms


def pace_ms(stages: Mapping[Role, StageWork], cores: int) -> float:
    """Return the milliseconds between frames with perfect overlap of the stages."""
    shared = sum(work.cpu_ms for work in stages.values()) / cores
    return max(shared, *(alone_ms(role, work, cores) for role, work in stages.items()))


@dataclass(frozen=True, kw_only=True)
class SuiteSpec(Generic[Config]):
    """Role of a benchmark in the suite; the defaults suit most."""

    config: Callable[[tuple[str, ...]], Config | str] | None = None
    """Paths of videos → configuration in a suite, or the reason it cannot run. None: defaults with
    all videos, or with the first if the benchmark takes one."""
    seconds: float = 60.0
    """Estimated seconds on two cores."""
    concerns: Concern | None = None
    """Part that its gain applies to. The `work` of another benchmark converts it to an end-to-end
    gain. None: the gain is end to end."""
    work: Callable[[Any], Mapping[Role, StageWork]] | None = None
    """Record → sequential work of each stage on a frame; None: not measured. The first benchmark of
    the registry with a verdict is used."""
    goes_last: bool = False
    """Whether to run it last, because it may disturb others, for example by its memory use."""


@dataclass(frozen=True, kw_only=True)
class BenchmarkDefinition(Generic[Config, Recorded]):
    """Fields that every kind of benchmark has."""

    name: str
    """Name: `headrace bench NAME`, `NAME.json`, `NAME.csv`, `NAME.html`."""
    summary: str
    """One-sentence description."""
    config: type[Config]
    """Configuration; its fields are the command's options."""
    record: type[Recorded]
    title: Callable[[Recorded], str]
    """Title of the page, above the answer."""
    unit: str = "frames"
    """Unit of the work of a repetition."""
    announce: Callable[[Config], str] | None = None
    """Text printed before measuring: the estimated time."""
    terms: SuiteSpec[Config] = field(default_factory=SuiteSpec)
    """Role in `headrace bench all`."""


@dataclass(frozen=True, kw_only=True)
class Benchmark(BenchmarkDefinition[Config, Recorded], Generic[Config, Recorded, Row]):
    """One benchmark of `headrace bench`; `bench/registry.py` lists all.

    All fields except `measure` are pure: an old record gives the same page again. A module with a
    benchmark imports PyTorch only inside `measure`, so that `--help` is fast: see `deferred`.
    """

    measure: Callable[[Config, Context], Recorded]
    """Raises ConfigError, MediaError and StageError."""
    rows: Callable[[Recorded], tuple[Row, ...]]
    columns: tuple[Column[Row], ...] | Callable[[Recorded], tuple[Column[Row], ...]]
    """Columns of the table; the first one names the row. A function if they depend on the
    record."""
    reading: str | Callable[[Recorded, tuple[Row, ...]], str]
    """Explanation of the columns, one or two sentences. A function if it depends on the
    record."""
    answer: Callable[[Recorded, tuple[Row, ...]], tuple[Finding, ...]]
    """Findings, the answer first."""
    charts: Callable[[Recorded, tuple[Row, ...]], tuple[Chart, ...]] = lambda record, rows: ()
    names_machine: bool = True
    """Whether the machine is printed before measuring."""

    def run(self, config: Config, context: Context) -> Recorded:
        """Return the record of `measure`, with the spread of its rates.

        Raises:
            HeadraceError: see `measure`.
        """
        record = self.measure(config, context)
        return record.model_copy(update={"spread": RepeatSpread.of(self.rows(record))})

    def page(self, record: Recorded) -> BenchmarkPage:
        """Return the page of a record."""
        rows = self.rows(record)
        reading = self.reading(record, rows) if callable(self.reading) else self.reading
        return BenchmarkPage(
            name=f"bench {self.name}",
            title=self.title(record),
            findings=self.answer(record, rows),
            charts=self.charts(record, rows),
            table=table(self._columns_of(record), rows, reading),
            provenance=record.provenance,
        )

    def csv(self, record: Recorded) -> str:
        """Return the figures of a record as CSV; numbers have 6 digits, missing cells are empty.

        Column names have units, except counts and shares.
        A `RepetitionRow` has one line per repetition, or one line with its facts if it was skipped.
        A record has one line; a sequence of records, one line each. A series of numbers becomes its
        mean, standard deviation, p50 and p95 (empty with fewer than 90 numbers).
        """
        name = self._columns_of(record)[0].cell
        lines = [
            {"row": name(row), **line}
            for row in self.rows(record)
            for line in _csv_lines(row, self.unit)
        ]
        columns = dict.fromkeys(["row", *(column for line in lines for column in line)])
        table = io.StringIO()
        writer = csv.DictWriter(table, [*columns], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _rounded(cell) for name, cell in line.items()} for line in lines)
        return table.getvalue()

    def _columns_of(self, record: Recorded) -> tuple[Column[Row], ...]:
        return self.columns(record) if callable(self.columns) else self.columns


def _rounded(cell: object) -> object:
    return float(f"{cell:.6g}") if isinstance(cell, float) else cell


def _csv_lines(row: Any, unit: str) -> Iterator[dict[str, object]]:
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
    for name, value in record:
        column = _NAMES.get(name, name)
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


Registered = Benchmark[Any, Any, Any]


def deferred(path: str) -> Callable[..., Any]:
    """Return a function of `headrace.bench` whose module is imported on the call, with PyTorch.

    >>> measure = deferred("overlap_variants:measure_overlap")
    """
    return lambda *arguments: resolve_name(f"headrace.bench.{path}")(*arguments)


def options_of(config: Configuration) -> dict[str, object]:
    """Return option values by name; videos are replaced by their count."""
    options = asdict(config)
    if isinstance(videos := options.get("videos"), tuple):
        options["videos"] = len(videos)
    return options


def make_folder(folder: Path) -> None:
    """Create the output folder; call it before measuring, which takes minutes.

    Raises:
        ConfigError: the folder cannot be created.
    """
    refuse_address(folder, is_output=True)
    with file_errors(f"cannot write into {folder}"):
        folder.mkdir(parents=True, exist_ok=True)


def write_benchmark(
    benchmark: Registered, record: BenchmarkRecord, page: BenchmarkPage, folder: Path
) -> dict[str, Path]:
    """Write NAME.json, NAME.csv and NAME.html into `folder`; return content → path of each file.

    Raises:
        ConfigError: the folder cannot be written.
    """
    texts = {
        "Numbers": ("json", record.model_dump_json(indent=1) + "\n"),
        "Table": ("csv", benchmark.csv(record)),
        "Chart": ("html", render_benchmark(page)),
    }
    paths = {}
    for content, (suffix, text) in texts.items():
        paths[content] = folder / f"{benchmark.name}.{suffix}"
        write_whole(paths[content], text)
    return paths
