"""What the gain of one stage is for the whole, by the work of all of them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.bench.suite.suite_spec import StageWork
from headrace.profiling.provenance import Scalar
from headrace.profiling.stages import ROLES, Role
from headrace.report.numbers import decimal


@dataclass(frozen=True, kw_only=True)
class Work:
    """What the stages do to a frame, one after the other."""

    stages: Mapping[Role, StageWork]
    source: str
    """The experiment that measured it."""
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
class WholeGain:
    """Times as fast the whole would be, if one stage were faster by its gain."""

    in_turn: float
    """Where stages follow each other (Amdahl): the others take as long as before."""
    overlapped: float
    """Where they overlap, as in `headrace run`: the next costliest then sets the pace, or the cores
    that they share."""


def whole_gain(gain: float, role: Role, work: Work) -> WholeGain | None:
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
    return WholeGain(
        in_turn=_sum(now) / _sum(faster),
        overlapped=_pace(now, work.cores) / _pace(faster, work.cores),
    )


def _sum(stages: Mapping[Role, StageWork]) -> float:
    return sum(stage.ms for stage in stages.values())


def _pace(stages: Mapping[Role, StageWork], cores: int) -> float:
    """Milliseconds between frames, if stages overlap as well as they can.

    A run decodes with a thread for each core and has one thread for each other stage.
    """
    alone = (stage.ms / (cores if role == "decode" else 1) for role, stage in stages.items())
    shared = sum(stage.cpu_ms for stage in stages.values()) / cores
    return max(*alone, shared)
