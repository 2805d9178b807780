"""How a benchmark joins the suite, and what a gain of one stage is for the whole (Amdahl)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from headrace.config_fields import Configuration
from headrace.profiling.number_format import decimal
from headrace.profiling.provenance import Scalar
from headrace.profiling.stage_records import ROLES, Role

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
class SuiteSpec(Generic[Config]):
    """What a suite must know of a benchmark; the defaults suit most."""

    config: Callable[[tuple[str, ...]], Config | str] | None = None
    """Given the paths of videos: how it is measured as one among many, or in a sentence why it
    cannot be. None: as by default, on all of them, or on the first where it takes one alone."""
    seconds: float = 60.0
    """About how long that takes on two cores."""
    concerns: Concern | None = None
    """What its gain is a gain of. That of a stage becomes one of the whole by the `work` that
    another benchmark tells; None: it is one of the whole already."""
    work: Callable[[Any], Mapping[Role, StageWork]] | None = None
    """Given its record: what each stage does to a frame, one after the other. None: it does not
    measure that. The first benchmark of the registry that does is asked, and gives a verdict."""
    goes_last: bool = False
    """Whether it takes so much of the machine, such as memory, that what is measured right after it
    could feel it."""


@dataclass(frozen=True, kw_only=True)
class StageCosts:
    """What the stages do to a frame, one after the other."""

    stages: Mapping[Role, StageWork]
    source: str
    """The benchmark that measured it."""
    cores: int
    """That all stages share."""
    model: Mapping[str, Scalar] = field(default_factory=dict)
    """The model and the device it was measured with, by their options."""

    @property
    def costliest(self) -> Role:
        """The role that takes the most time."""
        return max(self.stages, key=lambda role: self.stages[role].ms)

    @property
    def words(self) -> str:
        """`decoding 4.10, the model 8.40 ms`."""
        order = [role for role in ROLES if role in self.stages]
        said = (f"{ROLES[role].phrase} {decimal(self.stages[role].ms)}" for role in order)
        return f"{', '.join(said)} ms"


@dataclass(frozen=True, kw_only=True)
class EndToEndGain:
    """Times as fast the whole would be, if one stage were faster by its gain."""

    in_turn: float
    """Where stages follow each other (Amdahl): the others take as long as before."""
    overlapped: float
    """Where they overlap, as in `headrace run`: the next costliest then sets the pace, or the cores
    that they share."""


def end_to_end_gain(gain: float, role: Role, work: StageCosts) -> EndToEndGain | None:
    """Return what a gain of one stage is for the whole; None where its work is not known.

    It is less where a faster stage takes more cores: its processor time is taken to shrink as its
    wall time does.

    Args:
        gain: Times as fast the stage would be; above 0.
        role: Of the stage.
        work: Of all stages.
    """
    now = work.stages
    if role not in now or not now[role].ms:
        return None
    stage = now[role]
    faster = {**now, role: StageWork(ms=stage.ms / gain, cpu_ms=stage.cpu_ms / gain)}
    return EndToEndGain(
        in_turn=_sum(now) / _sum(faster),
        overlapped=pace_ms(now, work.cores) / pace_ms(faster, work.cores),
    )


def _sum(stages: Mapping[Role, StageWork]) -> float:
    return sum(stage.ms for stage in stages.values())


def alone_ms(role: Role, work: StageWork, cores: int) -> float:
    """Return the milliseconds between frames of a stage that no other holds up.

    A run decodes with a thread for each core and has one thread for each other stage.
    """
    return work.ms / cores if role == "decode" else work.ms


def pace_ms(stages: Mapping[Role, StageWork], cores: int) -> float:
    """Return the milliseconds between frames, if stages overlap as well as they can."""
    shared = sum(work.cpu_ms for work in stages.values()) / cores
    return max(shared, *(alone_ms(role, work, cores) for role, work in stages.items()))
