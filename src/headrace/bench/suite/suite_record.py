"""Record of a suite: outcome of each benchmark. Their own records are in the same folder."""

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, NonNegativeFloat, ValidationError

from headrace.atomic_file import write_whole
from headrace.bench.benchmark import BenchmarkRecord, Registered
from headrace.errors import ConfigError
from headrace.profiling.provenance import Record, Text, UtcTime
from headrace.records import fault_of

SUITE: Final = "all.json"
_FORMER_NAMES: Final = {"scenarios": "modes"}
"""Benchmark → name of the benchmark and of its file in suites of older versions."""
_NAMES: Final = {former: name for name, former in _FORMER_NAMES.items()}

Outcome = Literal["measured", "failed", "interrupted", "left out", "not possible"]
"""*Left out*: not requested; *not possible*: does not apply to these videos."""


class BenchmarkOutcome(Record):
    """Outcome of one benchmark."""

    experiment: Annotated[Text, BeforeValidator(lambda name: _NAMES.get(name, name))]
    """Name of the benchmark."""
    outcome: Outcome
    why: Text | None = None
    """Reason, except for *measured*."""
    last_lines: tuple[Text, ...] = ()
    """Last output lines of its process, if it crashed."""
    is_taken: bool = False
    """Whether an earlier suite measured it."""
    configuration: dict[str, Text | int | float | bool | None] = Field(default_factory=dict)
    """Options of the measurement; set even if it was not run."""
    alone: Annotated[
        tuple[Text, ...],
        BeforeValidator(
            lambda words: tuple(_NAMES.get(w, w) if i == 2 else w for i, w in enumerate(words))
        ),
    ] = ()
    """Command that measures this benchmark alone."""
    created: UtcTime | None = None
    """Creation time of its record; None: no record."""
    seconds: NonNegativeFloat | None = None
    """Duration; None: not started."""


class SuiteRecord(BenchmarkRecord):
    """Suite record; `NAME.json` of each measured benchmark is in the same folder."""

    videos: tuple[Text, ...]
    """Paths as given."""
    contents: tuple[Text | None, ...]
    """Content digest of each video; see `content_digest`."""
    chapters: tuple[BenchmarkOutcome, ...]
    """Outcomes, in registry order."""

    def with_outcome(self, new: BenchmarkOutcome) -> Self:
        """Return the record with one outcome replaced by `new`."""
        chapters = (new if old.experiment == new.experiment else old for old in self.chapters)
        return self.model_copy(update={"chapters": tuple(chapters)})

    def save(self, folder: Path) -> Path:
        """Write the record into `folder`; return its path.

        Raises:
            ConfigError: the record cannot be written.
        """
        write_whole(folder / SUITE, self.model_dump_json(indent=1) + "\n")
        return folder / SUITE


def read_suite(folder: Path) -> SuiteRecord | None:
    """Return the suite record in `folder`; None: no record.

    Raises:
        ConfigError: the record cannot be read.
    """
    path = folder / SUITE
    try:
        return SuiteRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise ConfigError(
            f"cannot read {path}: {fault_of(error)}; headrace bench all --rerun measures again"
        ) from error


def read_record(benchmark: Registered, folder: Path) -> BenchmarkRecord | str:
    """Return the record of a benchmark in `folder`, or the reason it cannot be read."""
    path = folder / f"{benchmark.name}.json"
    former = folder / f"{_FORMER_NAMES.get(benchmark.name, benchmark.name)}.json"
    if not path.exists() and former.exists():
        path = former
    try:
        record: BenchmarkRecord = benchmark.record.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        return f"cannot read {path}: {fault_of(error)}"
    return record
