"""What a survey is about to do: which experiments it measures, with which options, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.bench.benchmark import options_of
from headrace.bench.suite.config import Registered, SurveyConfig, config_of
from headrace.bench.suite.rerun_command import command_alone
from headrace.bench.suite.suite_record import Chapter, SurveyRecord, read_record
from headrace.errors import ConfigError
from headrace.measuring.config_fields import Configuration
from headrace.profiling.comparison.circumstances import surroundings
from headrace.profiling.provenance import Provenance, plain
from headrace.runs.launch.problems import closest

NOT_ASKED: Final = "not asked for, by --only or --skip"
_ANY_TIME: Final = ("governor",)
"""What may differ between two measurements on one machine that are of one survey."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which experiments are measured."""

    only: tuple[str, ...] = ()
    """These alone; none: all."""
    skip: tuple[str, ...] = ()
    """All but these."""
    again: bool = False
    """Also what was measured before."""

    def check(self, names: Sequence[str]) -> None:
        """Hold it against the names of all experiments.

        Raises:
            ConfigError: there is none of a name, or none is left.
        """
        for option, asked in (("only", self.only), ("skip", self.skip)):
            for name in asked:
                if name not in names:
                    raise ConfigError(
                        f"--{option} names no experiment: got {name!r}; {closest(name, names)}"
                    )
        if not any(map(self.is_asked, names)):
            raise ConfigError("--only and --skip leave no experiment; give one of both")

    def is_asked(self, name: str) -> bool:
        """Whether an experiment is asked for."""
        return name not in self.skip and (not self.only or name in self.only)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One experiment of a survey."""

    experiment: Registered
    chapter: Chapter
    """What is known of it before anything is measured."""
    is_due: bool
    """Whether it is measured; else the chapter stays as it is."""


def plan_survey(
    experiments: Sequence[Registered],
    asked: SurveyConfig,
    choice: Choice,
    *,
    folder: Path,
    earlier: SurveyRecord | None,
    contents: tuple[str | None, ...],
    made: Provenance,
) -> tuple[Planned, ...]:
    """Return what is done with each experiment, in their order.

    What `earlier` measured into `folder` is taken, if it was asked for or not: of videos with the
    same content, with the same options, machine and versions.

    Args:
        experiments: All there are.
        asked: The videos and the model.
        choice: Which of them are asked for.
        folder: Of the results.
        earlier: What was recorded there; None if nothing was.
        contents: Of the videos.
        made: What a record made now would say of machine and versions.
    """
    choice.check([each.name for each in experiments])
    known = earlier.chapters if earlier is not None and earlier.contents == contents else ()
    before = {each.experiment: each for each in known if each.outcome == "measured"}

    def planned(experiment: Registered) -> Planned:
        is_asked, config = choice.is_asked(experiment.name), config_of(experiment, asked)
        chapter = _chapter(experiment, config)
        old = before.get(experiment.name)
        is_taken = old is not None and _is_same(experiment, old, chapter, folder, made)
        if old is not None and is_taken and not (choice.again and is_asked):
            taken = old.model_copy(update={"is_taken": True})
            return Planned(experiment=experiment, chapter=taken, is_due=False)
        if not is_asked:
            left_out = {"outcome": "left out", "why": NOT_ASKED}
            return Planned(
                experiment=experiment, chapter=chapter.model_copy(update=left_out), is_due=False
            )
        return Planned(
            experiment=experiment, chapter=chapter, is_due=chapter.outcome != "not possible"
        )

    return tuple(map(planned, experiments))


def _chapter(experiment: Registered, config: Configuration | str) -> Chapter:
    if isinstance(config, str):
        return Chapter(experiment=experiment.name, outcome="not possible", why=config)
    return Chapter(
        experiment=experiment.name,
        outcome="interrupted",
        why="it was not begun",
        configuration=plain(options_of(config)),
        alone=command_alone(experiment, config),
    )


def _is_same(
    experiment: Registered, old: Chapter, new: Chapter, folder: Path, made: Provenance
) -> bool:
    """Whether what was measured before is what would be measured now."""
    if old.configuration != new.configuration:
        return False
    record = read_record(experiment, folder)
    if isinstance(record, str) or record.provenance.created != old.created:
        return False
    differing = surroundings(record.provenance, made)
    # GPUs are named only where PyTorch is loaded, which it is not here.
    return all(each.name in _ANY_TIME or each.name.startswith("GPU") for each in differing)
