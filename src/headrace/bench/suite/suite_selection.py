"""Plan and record of a suite: options, benchmarks to run, their outcomes and reasons."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, NonNegativeFloat, ValidationError

from headrace.atomic_file import write_whole
from headrace.bench.benchmark import BenchmarkRecord, Registered, options_of
from headrace.bench.config import USUAL_MODEL, ModelConfig, ModelName
from headrace.config_fields import Configuration, Option, OptionField, option_fields
from headrace.errors import ConfigError, closest
from headrace.profiling.environment_diff import machine_differences
from headrace.profiling.provenance import Provenance, Record, Text, UtcTime, plain
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


@dataclass(frozen=True, kw_only=True)
class SuiteConfig(ModelConfig):
    """Options of `bench all`. All benchmarks use one model, so that stage shares of one benchmark
    apply to the gains of all."""

    model_name: ModelName = USUAL_MODEL

    def check(self) -> None:
        """Check model and device before anything is measured.

        Imports PyTorch.

        Raises:
            ConfigError: torchvision has no model of this name.
            BackendError: the device is missing.
        """
        from headrace.models.catalogue import check_name
        from headrace.models.compute import Compute
        from headrace.models.device import check_available

        check_name(self.model_name, "classification")
        check_available(Compute(device=self.device))

    @property
    def model(self) -> dict[str, Any]:
        """Options shared with benchmarks, by name."""
        return {name: value for name, value in asdict(self).items() if name != "videos"}


def config_of(benchmark: Registered, suite_config: SuiteConfig) -> Configuration | str:
    """Return the configuration of a benchmark in a suite, or the reason it cannot run."""
    make: Callable[[tuple[str, ...]], Configuration | str] = benchmark.terms.config or (
        lambda videos: benchmark.config(videos=videos)
    )
    try:
        config = make(suite_config.videos)
    except ConfigError as error:
        if len(suite_config.videos) > 1:  # the benchmark may take only one video
            return config_of(benchmark, replace(suite_config, videos=suite_config.videos[:1]))
        return str(error)
    if isinstance(config, str):
        return config
    names = {field.name for field in fields(config)}
    return replace(config, **{k: value for k, value in suite_config.model.items() if k in names})


def command_alone(benchmark: Registered, config: Configuration) -> tuple[str, ...]:
    """Return the benchmark's command line as arguments, without default options."""
    words = ["headrace", "bench", benchmark.name]
    for field in option_fields(benchmark.config):
        value = getattr(config, field.name)
        if not isinstance(field.option, Option):
            words += map(str, value)
        elif value != field.default:
            words += _option_words(field, field.option, value)
    return tuple(words)


def _option_words(field: OptionField, option: Option, value: Any) -> list[str]:
    flag, *_ = (*option.flags, f"--{field.name.replace('_', '-')}")
    if isinstance(value, bool):
        return [flag if value else flag.replace("--", "--no-", 1)]
    if field.item is not None:
        return [flag, ",".join(map(str, value))]
    if isinstance(value, tuple):
        return [flag, "x".join(map(str, value))]
    return [flag, str(value)]


NOT_SELECTED: Final = "not selected by --only or --skip"
_ANY_TIME: Final = ("governor",)
"""Environment differences allowed between measurements of one suite."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Selection of benchmarks."""

    only: tuple[str, ...] = ()
    """Only these; empty: all."""
    skip: tuple[str, ...] = ()
    """All but these."""
    again: bool = False
    """Whether to measure again what an earlier suite measured."""

    def check(self, names: Sequence[str]) -> None:
        """Check the names against all benchmarks.

        Raises:
            ConfigError: a name is unknown, or no benchmark is left.
        """
        for option, given in (("only", self.only), ("skip", self.skip)):
            for name in given:
                if name not in names:
                    raise ConfigError(
                        f"--{option} must name a benchmark, got {name!r}; {closest(name, names)}"
                    )
        if not any(map(self.is_selected, names)):
            raise ConfigError("--only and --skip leave no benchmark; give only one of them")

    def is_selected(self, name: str) -> bool:
        """Whether a benchmark is selected."""
        return name not in self.skip and (not self.only or name in self.only)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One benchmark of a suite."""

    benchmark: Registered
    result: BenchmarkOutcome
    """Outcome before anything is measured."""

    @property
    def is_due(self) -> bool:
        """Whether it must be measured; else its outcome is final."""
        return self.result.outcome == "interrupted"


def plan_suite(
    benchmarks: Sequence[Registered],
    suite_config: SuiteConfig,
    choice: Choice,
    *,
    folder: Path,
    earlier: SuiteRecord | None,
    contents: tuple[str | None, ...],
    provenance: Provenance,
) -> tuple[Planned, ...]:
    """Return the plan of each benchmark, in order.

    Results of `earlier`, selected or not, are reused if video contents, options, machine and
    versions are equal.

    Args:
        benchmarks: All benchmarks.
        suite_config: Videos and model.
        choice: Selected benchmarks.
        folder: Folder of the results.
        earlier: Existing record in the folder; None: no record.
        contents: Content digests of the videos.
        provenance: Current machine and versions.
    """
    choice.check([benchmark.name for benchmark in benchmarks])
    known = earlier.chapters if earlier is not None and earlier.contents == contents else ()
    before = {old.experiment: old for old in known if old.outcome == "measured"}

    def plan(benchmark: Registered) -> Planned:
        is_selected = choice.is_selected(benchmark.name)
        config = config_of(benchmark, suite_config)
        result = _outcome(benchmark, config)
        old = before.get(benchmark.name)
        is_kept = old is not None and _is_same(benchmark, old, result, folder, provenance)
        if old is not None and is_kept and not (choice.again and is_selected):
            result = old.model_copy(update={"is_taken": True})
        elif not is_selected:
            result = result.model_copy(update={"outcome": "left out", "why": NOT_SELECTED})
        return Planned(benchmark=benchmark, result=result)

    return tuple(map(plan, benchmarks))


def _outcome(benchmark: Registered, config: Configuration | str) -> BenchmarkOutcome:
    if isinstance(config, str):
        return BenchmarkOutcome(experiment=benchmark.name, outcome="not possible", why=config)
    return BenchmarkOutcome(
        experiment=benchmark.name,
        outcome="interrupted",
        why="it was not started",
        configuration=plain(options_of(config)),
        alone=command_alone(benchmark, config),
    )


def _is_same(
    benchmark: Registered,
    old: BenchmarkOutcome,
    new: BenchmarkOutcome,
    folder: Path,
    provenance: Provenance,
) -> bool:
    """Return whether the earlier measurement equals a new one."""
    if old.configuration != new.configuration:
        return False
    record = read_record(benchmark, folder)
    if isinstance(record, str) or record.provenance.created != old.created:
        return False
    differing = machine_differences(record.provenance, provenance)
    # GPUs are recorded only if PyTorch is loaded, which it is not here.
    return all(
        difference.name in _ANY_TIME or difference.name.startswith("GPU")
        for difference in differing
    )
