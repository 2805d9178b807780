"""The benchmark: a question, how it is measured, what it records and shows, as one value."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import PositiveInt

from headrace.atomic_file import write_whole
from headrace.bench.suite.suite_spec import SuiteSpec
from headrace.config_fields import Configuration
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, reason_of
from headrace.measuring.interleaved import NoiseCheck, OnProgress, OnWord, Timed, unheard, unseen
from headrace.profiling.findings.finding import Finding
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import Provenance, Record
from headrace.report.benchmark_page import BenchmarkPage, Column, render_benchmark, table
from headrace.report.drawing import Chart
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.video.source import refuse_address


class BenchmarkRecord(Record):
    """What a benchmark measured; its page is computed from it, nothing else."""

    version: PositiveInt = 1
    """Of this layout."""
    provenance: Provenance

    @property
    def cores(self) -> int:
        """Cores that it could use."""
        return self.provenance.machine.usable_cores

    def trust(self, rows: Sequence[Timed]) -> NoiseCheck:
        """Return how far the figures of rows can be trusted, at least one."""
        return NoiseCheck.of(rows, self.cores)


Config = TypeVar("Config", bound=Configuration)
Recorded = TypeVar("Recorded", bound=BenchmarkRecord)
Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a measurement is given besides its configuration."""

    command: Sequence[str] = ()
    """The command line it came from, if any."""
    on_progress: OnProgress = unseen
    """Called before each turn."""
    on_word: OnWord = unheard
    """Called with what is known before the first turn only now: how long all of them will take."""
    store: IndexStore | None = None
    """Where indexes are kept; None means the user's cache folder."""
    clock: Clock = SYSTEM_CLOCK
    out: Path | None = None
    """Folder of the results, for a file besides the record; None: none is written."""

    def provenance(self, config: Configuration, **chosen: object) -> Provenance:
        """Return where a record comes from that is about to be made.

        Options are as configured but for what was `chosen` where they leave it open.
        """
        return provenance({**options_of(config), **chosen}, self.command, self.clock)


@dataclass(frozen=True, kw_only=True)
class Benchmark(Generic[Config, Recorded, Row]):
    """A question. `bench/registry.py` lists those that `headrace bench` asks.

    All but `measure` is pure: an old record gives the same page again. A module that defines one
    imports what only measuring needs when it measures, so that `--help` does not wait for PyTorch.
    """

    name: str
    """A word: `headrace bench NAME`, and the names of the files it leaves."""
    summary: str
    """What it does, in a sentence."""
    config: type[Config]
    """Its fields are the options of the command."""
    record: type[Recorded]
    measure: Callable[[Config, Context], Recorded]
    """Raises ConfigError, MediaError and StageError."""
    title: Callable[[Recorded], str]
    """What was measured of what, above the answer."""
    rows: Callable[[Recorded], tuple[Row, ...]]
    columns: tuple[Column[Row], ...] | Callable[[Recorded], tuple[Column[Row], ...]]
    """The first one names the row. A function where they depend on what was measured."""
    reading: Callable[[Recorded, tuple[Row, ...]], str]
    """What the columns are, one or two sentences."""
    answer: Callable[[Recorded, tuple[Row, ...]], tuple[Finding, ...]]
    """The answer first."""
    charts: Callable[[Recorded, tuple[Row, ...]], tuple[Chart, ...]] = lambda record, rows: ()
    names_machine: bool = False
    """Whether the console is told of the machine before it is measured on."""
    announce: Callable[[Config], str] | None = None
    """What the console is told before it is measured: how long it can take."""
    terms: SuiteSpec[Config] = field(default_factory=SuiteSpec)
    """On which it takes part in `headrace bench all`."""

    def page(self, record: Recorded) -> BenchmarkPage:
        """Return what the record shows, ready to be rendered."""
        rows = self.rows(record)
        columns = self.columns(record) if callable(self.columns) else self.columns
        return BenchmarkPage(
            name=f"bench {self.name}",
            title=self.title(record),
            findings=self.answer(record, rows),
            charts=self.charts(record, rows),
            table=table(columns, rows, self.reading(record, rows)),
            provenance=record.provenance,
        )


def options_of(config: Configuration) -> dict[str, object]:
    """Return the options of a configuration by their names; of videos there is only the number."""
    options = asdict(config)
    if isinstance(videos := options.get("videos"), tuple):
        options["videos"] = len(videos)
    return options


def make_folder(folder: Path) -> None:
    """Make the folder of the results, if need be: before measuring, which takes minutes.

    Raises:
        ConfigError: it cannot be made.
    """
    refuse_address(folder, is_output=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot write into {folder}: {reason_of(error)}; give a folder that can be written to"
        ) from error


def write_benchmark(
    record: BenchmarkRecord, page: BenchmarkPage, folder: Path, name: str
) -> tuple[Path, Path]:
    """Write `name`.json and `name`.html into `folder`; return their paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    numbers, chart = folder / f"{name}.json", folder / f"{name}.html"
    write_whole(numbers, record.model_dump_json(indent=1) + "\n")
    write_whole(chart, render_benchmark(page))
    return numbers, chart
