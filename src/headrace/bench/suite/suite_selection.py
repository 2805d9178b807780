"""What a suite is asked for, which benchmarks it measures, with which options, and why."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from headrace.bench.benchmark import Benchmark, options_of
from headrace.bench.config import USUAL_MODEL, ModelConfig, ModelName
from headrace.bench.suite.suite_record import BenchmarkOutcome, SuiteRecord, read_record
from headrace.config_fields import (
    Configuration,
    Option,
    OptionField,
    option_fields,
)
from headrace.errors import ConfigError
from headrace.profiling.comparison.environment_diff import machine_differences
from headrace.profiling.provenance import Provenance, plain
from headrace.runs.launch.problems import closest

Registered = Benchmark[Any, Any, Any]


@dataclass(frozen=True, kw_only=True)
class SuiteConfig(ModelConfig):
    """What is measured. One model, so that the shares of one benchmark hold for all gains."""

    model_name: ModelName = USUAL_MODEL

    def check(self) -> None:
        """Refuse a model or device that there is not, before anything is measured.

        Imports PyTorch.

        Raises:
            ConfigError: torchvision has no such model.
            BackendError: the device is missing.
        """
        from headrace.models.catalogue import check_name
        from headrace.models.compute import Compute
        from headrace.models.precision_support import check_available

        check_name(self.model_name, "classification")
        check_available(Compute(device=self.device))

    @property
    def model(self) -> dict[str, Any]:
        """The options that benchmarks have in common, by their names."""
        return {name: value for name, value in asdict(self).items() if name != "videos"}


def config_of(benchmark: Registered, asked: SuiteConfig) -> Configuration | str:
    """Return how a benchmark is measured in a suite, or why it cannot be."""
    make: Callable[[tuple[str, ...]], Configuration | str] = benchmark.terms.config or (
        lambda videos: benchmark.config(videos=videos)
    )
    try:
        config = make(asked.videos)
    except ConfigError as error:
        if len(asked.videos) > 1:  # it may take one alone
            return config_of(benchmark, replace(asked, videos=asked.videos[:1]))
        return str(error)
    if isinstance(config, str):
        return config
    names = {field.name for field in fields(config)}
    return replace(config, **{k: value for k, value in asked.model.items() if k in names})


def command_alone(benchmark: Benchmark[Any, Any, Any], config: Configuration) -> tuple[str, ...]:
    """Return it as a list of arguments; options at their defaults are left out."""
    words = ["headrace", "bench", benchmark.name]
    for field in option_fields(benchmark.config):
        value = getattr(config, field.name)
        if not isinstance(field.option, Option):
            words += map(str, value)
        elif value != field.default:
            words += _typed(field, field.option, value)
    return tuple(words)


def _typed(field: OptionField, option: Option, value: Any) -> list[str]:
    flag, *_ = (*option.flags, f"--{field.name.replace('_', '-')}")
    if isinstance(value, bool):
        return [flag if value else flag.replace("--", "--no-", 1)]
    if field.item is not None:
        return [flag, ",".join(map(str, value))]
    if isinstance(value, tuple):
        return [flag, *map(str, value)]
    return [flag, str(value)]


NOT_ASKED: Final = "not asked for, by --only or --skip"
_ANY_TIME: Final = ("governor",)
"""What may differ between two measurements on one machine that are of one suite."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which benchmarks are measured."""

    only: tuple[str, ...] = ()
    """These alone; none: all."""
    skip: tuple[str, ...] = ()
    """All but these."""
    again: bool = False
    """Also what was measured before."""

    def check(self, names: Sequence[str]) -> None:
        """Hold it against the names of all benchmarks.

        Raises:
            ConfigError: there is none of a name, or none is left.
        """
        for option, asked in (("only", self.only), ("skip", self.skip)):
            for name in asked:
                if name not in names:
                    raise ConfigError(
                        f"--{option} names no benchmark: got {name!r}; {closest(name, names)}"
                    )
        if not any(map(self.is_asked, names)):
            raise ConfigError("--only and --skip leave no benchmark; give one of both")

    def is_asked(self, name: str) -> bool:
        """Whether a benchmark is asked for."""
        return name not in self.skip and (not self.only or name in self.only)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One benchmark of a suite."""

    benchmark: Registered
    result: BenchmarkOutcome
    """What is known of it before anything is measured."""

    @property
    def is_due(self) -> bool:
        """Whether it is measured; else the result stays as it is."""
        return self.result.outcome == "interrupted"


def plan_suite(
    benchmarks: Sequence[Registered],
    asked: SuiteConfig,
    choice: Choice,
    *,
    folder: Path,
    earlier: SuiteRecord | None,
    contents: tuple[str | None, ...],
    made: Provenance,
) -> tuple[Planned, ...]:
    """Return what is done with each benchmark, in their order.

    What `earlier` measured into `folder` is taken, if it was asked for or not: of videos with the
    same content, with the same options, machine and versions.

    Args:
        benchmarks: All there are.
        asked: The videos and the model.
        choice: Which of them are asked for.
        folder: Of the results.
        earlier: What was recorded there; None if nothing was.
        contents: Of the videos.
        made: What a record made now would say of machine and versions.
    """
    choice.check([each.name for each in benchmarks])
    known = earlier.chapters if earlier is not None and earlier.contents == contents else ()
    before = {each.experiment: each for each in known if each.outcome == "measured"}

    def planned(benchmark: Registered) -> Planned:
        is_asked, config = choice.is_asked(benchmark.name), config_of(benchmark, asked)
        result = _outcome(benchmark, config)
        old = before.get(benchmark.name)
        is_kept = old is not None and _is_same(benchmark, old, result, folder, made)
        if old is not None and is_kept and not (choice.again and is_asked):
            result = old.model_copy(update={"is_taken": True})
        elif not is_asked:
            result = result.model_copy(update={"outcome": "left out", "why": NOT_ASKED})
        return Planned(benchmark=benchmark, result=result)

    return tuple(map(planned, benchmarks))


def _outcome(benchmark: Registered, config: Configuration | str) -> BenchmarkOutcome:
    if isinstance(config, str):
        return BenchmarkOutcome(experiment=benchmark.name, outcome="not possible", why=config)
    return BenchmarkOutcome(
        experiment=benchmark.name,
        outcome="interrupted",
        why="it was not begun",
        configuration=plain(options_of(config)),
        alone=command_alone(benchmark, config),
    )


def _is_same(
    benchmark: Registered,
    old: BenchmarkOutcome,
    new: BenchmarkOutcome,
    folder: Path,
    made: Provenance,
) -> bool:
    """Whether what was measured before is what would be measured now."""
    if old.configuration != new.configuration:
        return False
    record = read_record(benchmark, folder)
    if isinstance(record, str) or record.provenance.created != old.created:
        return False
    differing = machine_differences(record.provenance, made)
    # GPUs are named only where PyTorch is loaded, which it is not here.
    return all(each.name in _ANY_TIME or each.name.startswith("GPU") for each in differing)
