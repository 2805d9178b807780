"""On which terms an experiment takes part in a survey."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from headrace.measuring.config_fields import Configuration
from headrace.profiling.stages import Role

Config = TypeVar("Config", bound=Configuration)

Concern = Role | Literal["loading"]
"""What a gain is a gain of: a stage of a run, or the loading of a training loop."""


@dataclass(frozen=True, kw_only=True)
class StageWork:
    """What one stage does to a frame while no other works."""

    ms: float
    """Wall time."""
    cpu_ms: float
    """Processor time: more where several cores work at a time, less where another device does."""


@dataclass(frozen=True, kw_only=True)
class Terms(Generic[Config]):
    """What a survey must know of an experiment; the defaults suit most."""

    config: Callable[[tuple[str, ...]], Config | str] | None = None
    """Given the paths of videos: how it is measured as one among many, or in a sentence why it
    cannot be. None: as by default, on all of them, or on the first where it takes one alone."""
    seconds: float = 60.0
    """About how long that takes on two cores."""
    concerns: Concern | None = None
    """What its gain is a gain of. That of a stage becomes one of the whole by the `work` that
    another experiment tells; None: it is one of the whole already."""
    work: Callable[[Any], Mapping[Role, StageWork]] | None = None
    """Given its record: what each stage does to a frame, one after the other. None: it does not
    measure that. The first experiment of the registry that does is asked, and gives a verdict."""
    goes_last: bool = False
    """Whether it takes so much of the machine, such as memory, that what is measured right after it
    could feel it."""
