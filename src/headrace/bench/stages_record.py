"""What `bench stages` measured, as values, and the rows made of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.bench.record import ExperimentRecord
from headrace.measuring.interleaved import Spread, Turn, cores_of_others
from headrace.profiling.setup import Setup
from headrace.profiling.stages import Role
from headrace.runtime.distribution import Distribution

COMPARED: Final[tuple[Role, ...]] = ("decode", "preprocess", "model")
"""L_dec : L_prep : L_inf; a transfer to a device stands apart."""
TRACE: Final = "stages.trace.json.gz"
"""The file of the trace, beside the record."""


class StagesTurn(Turn):
    """All stages, one after the other, batch after batch."""

    work_ms: dict[Role, tuple[NonNegativeFloat, ...]]
    """Role -> wall time of its work on each batch."""
    cpu_ms: dict[Role, tuple[NonNegativeFloat, ...]]
    """Role -> processor time of the whole process meanwhile, on each batch."""


class StagesRecord(ExperimentRecord):
    """What was measured."""

    setup: Setup
    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the video."""
    model_seconds: NonNegativeFloat
    """Loading the model and warming it up; before all turns."""
    turns: tuple[StagesTurn, ...]
    traced: NonNegativeInt = 0
    """Batches in the trace, taken when all turns were over; 0: none was written."""


@dataclass(frozen=True, kw_only=True)
class StagesRow:
    """One stage, over all batches of all turns."""

    role: Role
    ms: float
    """Wall time of its work on a frame, the median batch."""
    p95_ms: float | None
    """None after too few batches."""
    cpu_ms: float
    """Processor time on a frame, the median batch."""
    share: float
    """Of what all stages take together."""
    parts: float
    """So many times what the least of decode, preprocess and model takes."""
    batches: int
    rate: Spread
    """Frames per second of this stage alone, by turns."""
    others: float | None


def rows_of(record: StagesRecord) -> tuple[StagesRow, ...]:
    """Return a row for each stage, in the order the frames take."""
    frames, turns = record.setup.batch_size, record.turns
    found = {
        role: _per_frame([ms for turn in turns for ms in turn.work_ms[role]], frames)
        for role in turns[0].work_ms
    }
    least, whole = min(found[role].p50 for role in COMPARED), sum(d.p50 for d in found.values())
    return tuple(
        StagesRow(
            role=role,
            ms=each.p50,
            p95_ms=each.p95,
            cpu_ms=median(ms / frames for turn in turns for ms in turn.cpu_ms[role]),
            share=each.p50 / whole,
            parts=each.p50 / least,
            batches=each.count,
            rate=Spread.of([1e3 * frames / median(turn.work_ms[role]) for turn in turns]),
            others=cores_of_others(turns),
        )
        for role, each in found.items()
    )


def _per_frame(batches_ms: Sequence[float], frames: int) -> Distribution:
    found = Distribution.of([ms / frames for ms in batches_ms])
    assert found is not None
    return found
