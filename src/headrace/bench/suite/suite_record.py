"""Record of a suite: the outcome of each benchmark. Benchmarks' own records lie beside it."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, NonNegativeFloat, ValidationError

from headrace.atomic_file import write_whole
from headrace.bench.benchmark import Benchmark, BenchmarkRecord
from headrace.errors import ConfigError
from headrace.profiling.provenance import Record, Text, UtcTime
from headrace.records import fault_of

SUITE: Final = "all.json"
_FORMER_NAMES: Final = {"scenarios": "modes"}
"""Benchmark → its name in suites of earlier versions, and of its file there."""
_NAMES: Final = {former: name for name, former in _FORMER_NAMES.items()}

Outcome = Literal["measured", "failed", "interrupted", "left out", "not possible"]
"""*Left out* was not asked for; *not possible* does not apply to these videos."""


class BenchmarkOutcome(Record):
    """What became of one benchmark."""

    experiment: Annotated[Text, BeforeValidator(lambda name: _NAMES.get(name, name))]
    """Name of the benchmark."""
    outcome: Outcome
    why: Text | None = None
    """In words, of every outcome but *measured*."""
    last_lines: tuple[Text, ...] = ()
    """The end of what its process printed, where that ended by a fault."""
    is_taken: bool = False
    """Whether an earlier suite measured it."""
    configuration: dict[str, Text | int | float | bool | None] = Field(default_factory=dict)
    """The options it was, or would have been, measured with."""
    alone: Annotated[
        tuple[Text, ...],
        BeforeValidator(
            lambda words: tuple(_NAMES.get(w, w) if i == 2 else w for i, w in enumerate(words))
        ),
    ] = ()
    """Command that measures this benchmark alone."""
    created: UtcTime | None = None
    """Of its own record; None where there is none."""
    seconds: NonNegativeFloat | None = None
    """It took; None where it was not begun."""


class SuiteRecord(BenchmarkRecord):
    """A suite; `NAME.json` of each benchmark that was measured lies beside it."""

    videos: tuple[Text, ...]
    """Paths, as they were given."""
    contents: tuple[Text | None, ...]
    """What is in each; see `content_digest`."""
    chapters: tuple[BenchmarkOutcome, ...]
    """In the order of the registry."""

    def with_outcome(self, new: BenchmarkOutcome) -> Self:
        """Return the same with one in the place of that of the same benchmark."""
        chapters = (new if old.experiment == new.experiment else old for old in self.chapters)
        return self.model_copy(update={"chapters": tuple(chapters)})

    def save(self, folder: Path) -> Path:
        """Write it into `folder`; return where it lies.

        Raises:
            ConfigError: it cannot be written.
        """
        write_whole(folder / SUITE, self.model_dump_json(indent=1) + "\n")
        return folder / SUITE


def read_suite(folder: Path) -> SuiteRecord | None:
    """Return the suite whose record lies in `folder`; None if there is none.

    Raises:
        ConfigError: there is one that cannot be read.
    """
    path = folder / SUITE
    try:
        return SuiteRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise ConfigError(
            f"cannot read {path}: {fault_of(error)}; headrace bench all --rerun measures anew"
        ) from error


def read_record(benchmark: Benchmark[Any, Any, Any], folder: Path) -> BenchmarkRecord | str:
    """Return the record of a benchmark in `folder`, or why there is none."""
    path = folder / f"{benchmark.name}.json"
    former = folder / f"{_FORMER_NAMES.get(benchmark.name, benchmark.name)}.json"
    if not path.exists() and former.exists():
        path = former
    try:
        record: BenchmarkRecord = benchmark.record.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        return f"cannot read {path}: {fault_of(error)}"
    return record
