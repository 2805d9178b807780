"""Steps of a session as columns: all steps, or the latest steps of an endless run."""

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
    """One batch through all stages. Points in time are milliseconds since the start of the run."""

    step: int
    """0-based index, in the order of the outputs; warm-up steps come first."""
    input: int = 0
    """Index of the input in the session."""
    first_index: int
    """Index of the first frame of the batch in its video."""
    frames: int
    """Frames in the batch."""
    started_ms: float
    """Start of the work on the step."""
    work_ms: Mapping[str, float] = field(default_factory=dict)
    """Stage → wall-clock duration of its work on the step; includes the wait for GPU work."""
    core_wait_ms: Mapping[str, float] = field(default_factory=dict)
    """Stage → part of its work in which its thread could run and no core was free; `wait`: the same
    part of the wait for a batch. Empty: not known."""
    total_ms: float
    """Duration from `started_ms` to the output, waits in queues included. At full speed it is not a
    latency, because it grows with the queues."""
    arrived_ms: float | None = None
    """Arrival of the newest frame, as `pace` of the session defines it; None at full speed."""
    oldest_arrived_ms: float | None = None
    """Arrival of the oldest frame; None for a step of one frame."""
    capture_latency_ms: float | None = None
    """Duration from the capture of the newest frame, by the sender's clock, to the output; None if
    the sender sends no clock. Negative if the clocks differ by more than the latency."""
    segment: int | None = None
    """Index of the timeline of the source; a reconnection starts the next timeline. None at full
    speed, or if the step has frames of several timelines."""
    loss: float | None = None
    """Training loss; NaN or infinite if the training diverged. None at inference."""

    @property
    def service_ms(self) -> float:
        """Work of all stages on the step, waits not included."""
        return sum(self.work_ms.values())

    @property
    def queued_ms(self) -> float:
        """Time in which no stage worked on the step: in queues, or until the batch was full. 0 if
        stages worked on parts of it at the same time for longer."""
        return max(0.0, self.total_ms - self.service_ms)

    @property
    def ended_ms(self) -> float:
        """Time of the output."""
        return self.started_ms + self.total_ms


_Milliseconds = tuple[NonNegativeFloat, ...]
_BY_STAGE: Final = ("work_ms", "core_wait_ms")
"""Fields with one column per stage."""
_OPTIONAL: Final = ("oldest_arrived_ms", "capture_latency_ms", "segment")
"""Fields whose column is empty if no step has a value."""
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
    """One column per stage, and `wait`; empty: not known."""
    total_ms: _Milliseconds = ()
    arrived_ms: tuple[NonNegativeFloat | None, ...] = ()
    loss: tuple[Annotated[float, AllowInfNan(True)] | None, ...] = ()
    oldest_arrived_ms: tuple[NonNegativeFloat | None, ...] = ()
    """Empty if each step has one frame."""
    capture_latency_ms: tuple[float | None, ...] = ()
    """Empty if no sender sends its clock."""
    segment: tuple[NonNegativeInt | None, ...] = ()
    """Empty at full speed, and in older records."""

    @classmethod
    def of(cls, rows: Iterable[Step]) -> Self:
        """Return the columns of `rows`; all rows have the same stages."""
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
    """Latest `capacity` steps as columns of numbers; a tenth of the memory of objects.

    Waits for a core are not kept.
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
        """Yield the steps, oldest first."""
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
