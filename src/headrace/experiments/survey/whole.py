"""What the gain of one stage is for the whole, by the work of all of them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.profiling.stages import ROLES, Role
from headrace.report.numbers import decimal


@dataclass(frozen=True, kw_only=True)
class Work:
    """What the stages do to a frame, one after the other."""

    ms: Mapping[Role, float]
    """Role -> milliseconds."""
    source: str
    """The experiment that measured it."""
    cores: int | None
    """That all stages share; None where the model has a device of its own."""

    @property
    def costliest(self) -> Role:
        """The role of the most work."""
        return max(self.ms, key=lambda role: self.ms[role])

    @property
    def words(self) -> str:
        """`decoding 4.10, the model 8.40 ms`."""
        order = [role for role in ROLES if role in self.ms]
        return ", ".join(f"{ROLES[role].phrase} {decimal(self.ms[role])}" for role in order) + " ms"


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

    Args:
        gain: Times as fast the stage would be; above 0.
        role: Of the stage.
        work: Of all stages.
    """
    if not work.ms.get(role):
        return None
    faster = {**work.ms, role: work.ms[role] / gain}
    return WholeGain(
        in_turn=sum(work.ms.values()) / sum(faster.values()),
        overlapped=_pace(work.ms, work.cores) / _pace(faster, work.cores),
    )


def _pace(ms: Mapping[Role, float], cores: int | None) -> float:
    """Milliseconds between frames, if stages overlap as well as they can."""
    shared = sum(ms.values()) / cores if cores else 0.0
    return max(*ms.values(), shared)
