"""End-to-end gain of a faster stage (Amdahl), from the work of all stages."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.bench.benchmark import StageWork
from headrace.profiling.number_format import decimal
from headrace.profiling.provenance import Scalar
from headrace.profiling.run_records import ROLES, Role


@dataclass(frozen=True, kw_only=True)
class StageCosts:
    """Sequential work of the stages on a frame."""

    stages: Mapping[Role, StageWork]
    source: str
    """Benchmark that measured it."""
    cores: int
    """Cores shared by all stages."""
    model: Mapping[str, Scalar] = field(default_factory=dict)
    """Model and device of the measurement, by option name."""

    @property
    def costliest(self) -> Role:
        """Role with the most wall time."""
        return max(self.stages, key=lambda role: self.stages[role].ms)

    @property
    def words(self) -> str:
        """`decoding 4.10, the model 8.40 ms`."""
        order = [role for role in ROLES if role in self.stages]
        text = (f"{ROLES[role].phrase} {decimal(self.stages[role].ms)}" for role in order)
        return f"{', '.join(text)} ms"


@dataclass(frozen=True, kw_only=True)
class EndToEndGain:
    """End-to-end speedup from a faster stage."""

    in_turn: float
    """With sequential stages (Amdahl): the other stages take as long as before."""
    overlapped: float
    """With overlapping stages, as in `headrace run`: limited by the next slowest stage or the
    shared cores."""


def end_to_end_gain(gain: float, role: Role, work: StageCosts) -> EndToEndGain | None:
    """Return the end-to-end gain of a faster stage; None: its work is unknown.

    The stage's CPU time is assumed to shrink like its wall time.

    Args:
        gain: Speed-up of the stage; above 0.
        role: Role of the stage.
        work: Work of all stages.
    """
    stages = work.stages
    if role not in stages or not stages[role].ms:
        return None
    stage = stages[role]
    faster = {**stages, role: StageWork(ms=stage.ms / gain, cpu_ms=stage.cpu_ms / gain)}
    now_ms, faster_ms = (sum(stage.ms for stage in work.values()) for work in (stages, faster))
    return EndToEndGain(
        in_turn=now_ms / faster_ms,
        overlapped=pace_ms(stages, work.cores) / pace_ms(faster, work.cores),
    )


def alone_ms(role: Role, work: StageWork, cores: int) -> float:
    """Return the milliseconds between frames of a stage that never waits.

    A run decodes with one thread per core and has one thread for each other stage.
    """
    return work.ms / cores if role == "decode" else work.ms


def pace_ms(stages: Mapping[Role, StageWork], cores: int) -> float:
    """Return the milliseconds between frames with perfect overlap of the stages."""
    shared = sum(work.cpu_ms for work in stages.values()) / cores
    return max(shared, *(alone_ms(role, work, cores) for role, work in stages.items()))
