"""Steps of a session, one batch each, as columns; for an endless run, the latest."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Final, Self

from pydantic import (
    AllowInfNan,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    model_validator,
)

from headrace.runtime.distribution import RingBuffer


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One batch through all stages. Times are milliseconds since the start of the run."""

    step: int
    """0-based, in order of output; the first ones are warm-up steps."""
    input: int = 0
    """Index of the session's input with its frames."""
    first_index: int
    """Index of the first frame of the batch in its video."""
    frames: int
    """Frames in the batch."""
    started_ms: float
    """Start of the work on the step."""
    work_ms: Mapping[str, float] = field(default_factory=dict)
    """Stage → wall-clock duration of its work on the step; GPU work is waited for."""
    core_wait_ms: Mapping[str, float] = field(default_factory=dict)
    """Stage → part of its work, or of the wait for a batch (`wait`), in which its thread could run
    and no core was free; empty: not known."""
    total_ms: float
    """Duration from `started_ms` to the output, waits in queues included. At full speed, it grows
    with the queues and is not a latency."""
    arrived_ms: float | None = None
    """Arrival of its newest frame, by the session's `pace`; None at full speed."""
    oldest_arrived_ms: float | None = None
    """Arrival of its oldest frame; None if it has one frame."""
    capture_latency_ms: float | None = None
    """Duration from the capture of its newest frame, by the sender's clock, to the output; None
    without a sender's clock. Negative if the clocks differ by more than the latency."""
    segment: int | None = None
    """Index of the source's timeline of its pts; a reconnection starts the next timeline. None at
    full speed, or if its frames are of several timelines."""
    loss: float | None = None
    """Training loss; None at inference; NaN or infinite if the run diverged."""

    @property
    def service_ms(self) -> float:
        """Work on the step in all stages, waits left out."""
        return sum(self.work_ms.values())

    @property
    def queued_ms(self) -> float:
        """Time in which no stage worked on the step: in queues, or until its batch was full; 0
        where stages worked on its parts at the same time for longer."""
        return max(0.0, self.total_ms - self.service_ms)

    @property
    def ended_ms(self) -> float:
        """Output of the step."""
        return self.started_ms + self.total_ms


_Milliseconds = tuple[NonNegativeFloat, ...]
_BY_STAGE: Final = ("work_ms", "core_wait_ms")
"""Columns of columns."""
_OPTIONAL: Final = ("oldest_arrived_ms", "capture_latency_ms", "segment")
"""Columns that are empty if no step has a value."""
_NUMBERS: Final = tuple(field.name for field in fields(Step) if field.name not in _BY_STAGE)
_INTEGERS: Final = frozenset(["step", "input", "first_index", "frames", "segment"])


class Steps(BaseModel):
    """Steps as one column per field: an hour at 30 frames/s in batches of 16 is 0.5 MB."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="strings"
    )

    step: tuple[NonNegativeInt, ...] = ()
    input: tuple[NonNegativeInt, ...] = ()
    first_index: tuple[NonNegativeInt, ...] = ()
    frames: tuple[Annotated[int, Field(ge=1)], ...] = ()
    started_ms: _Milliseconds = ()
    work_ms: dict[str, _Milliseconds] = {}
    """One column per stage."""
    core_wait_ms: dict[str, _Milliseconds] = {}
    """One column per stage, and `wait`; empty if not known."""
    total_ms: _Milliseconds = ()
    arrived_ms: tuple[NonNegativeFloat | None, ...] = ()
    loss: tuple[Annotated[float, AllowInfNan(True)] | None, ...] = ()
    oldest_arrived_ms: tuple[NonNegativeFloat | None, ...] = ()
    """Empty if each step has one frame."""
    capture_latency_ms: tuple[float | None, ...] = ()
    """Empty without a sender's clock."""
    segment: tuple[NonNegativeInt | None, ...] = ()
    """Empty at full speed and in records of older versions."""

    @classmethod
    def of(cls, rows: Iterable[Step]) -> Self:
        """Return the columns of `rows`, which have the same stages."""
        steps = tuple(rows)
        columns: dict[str, Any] = {
            name: tuple(getattr(step, name) for step in steps) for name in _NUMBERS
        }
        columns |= {name: () for name in _OPTIONAL if set(columns[name]) <= {None}}
        columns["work_ms"] = _by_stage([step.work_ms for step in steps])
        if all(step.core_wait_ms for step in steps):
            columns["core_wait_ms"] = _by_stage([step.core_wait_ms for step in steps])
        return cls(**columns)

    def rows(self) -> Iterator[Step]:
        """Yield the steps."""
        names = self._filled()
        for k, values in enumerate(zip(*(getattr(self, name) for name in names), strict=True)):
            row: dict[str, Any] = dict(zip(names, values, strict=True))
            for name in _BY_STAGE:
                columns = getattr(self, name).items()
                row[name] = {stage: column[k] for stage, column in columns}
            yield Step(**row)

    def __len__(self) -> int:
        return len(self.step)

    def _filled(self) -> tuple[str, ...]:
        return tuple(name for name in _NUMBERS if name not in _OPTIONAL or getattr(self, name))

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        lengths = {name: len(getattr(self, name)) for name in self._filled()}
        for by_stage in (self.work_ms, self.core_wait_ms):
            lengths |= {stage: len(column) for stage, column in by_stage.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"all columns need one entry per step, got {lengths}")
        return self


def _by_stage(steps: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, ...]]:
    """Return a column per stage; all steps have the same stages."""
    stages = steps[0] if steps else ()
    return {stage: tuple(step[stage] for step in steps) for stage in stages}


class LatestSteps:
    """Last `capacity` steps as columns of numbers: a tenth of the memory of objects.

    Without waits for a core.
    """

    def __init__(self, capacity: int) -> None:
        """Start empty."""
        self._capacity = capacity
        self._columns = {name: RingBuffer(capacity) for name in _NUMBERS}
        self._work: dict[str, RingBuffer] = {}

    def append(self, step: Step) -> None:
        """Append a step; all steps have the same stages."""
        self._work = self._work or {stage: RingBuffer(self._capacity) for stage in step.work_ms}
        for name, column in self._columns.items():
            value = getattr(step, name)
            column.append(math.nan if value is None else value)
        for stage, column in self._work.items():
            column.append(step.work_ms[stage])

    def __len__(self) -> int:
        return len(self._columns["step"])

    def __iter__(self) -> Iterator[Step]:
        """Yield the steps, the oldest first."""
        columns = {name: column.values().tolist() for name, column in self._columns.items()}
        work = {stage: column.values().tolist() for stage, column in self._work.items()}
        for k in range(len(self)):
            yield Step(
                **{name: _value(name, column[k]) for name, column in columns.items()},
                work_ms={stage: column[k] for stage, column in work.items()},
            )


def _value(name: str, number: float) -> Any:
    if math.isnan(number):
        return None
    return int(number) if name in _INTEGERS else number
