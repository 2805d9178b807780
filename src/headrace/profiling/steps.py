"""The steps of a session, one batch each, kept as columns; of a run without end the latest."""

import math
from collections.abc import Iterable, Iterator, Mapping
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
    """One batch on its way from the first stage to the last. Times are milliseconds."""

    step: int
    """0-based, in order of output; warm-up steps come first and count."""
    input: int = 0
    """Which of the session's inputs its frames are from."""
    first_index: int
    """Index of the first frame of the batch in its video."""
    frames: int
    """Frames in the batch."""
    started_ms: float
    """When work on it began, since the start of the run."""
    work_ms: Mapping[str, float] = field(default_factory=dict)
    """Stage → wall clock it worked on the step; on a GPU until the work is complete."""
    total_ms: float
    """From `started_ms` until the last stage returned, the waits in the queues included: the step
    came out at `started_ms + total_ms`. At full speed this grows with the queues; not a latency."""
    arrived_ms: float | None = None
    """When its newest frame arrived, since the start of the run, by the session's `pace`; None at
    full speed, where there is no latency."""
    oldest_arrived_ms: float | None = None
    """When its oldest frame arrived; None where that is its newest one."""
    capture_latency_ms: float | None = None
    """From the capture of its newest frame, by the sender's clock, until it came out; None where
    the sender tells none. Negative where the two clocks differ by more than the latency."""
    segment: int | None = None
    """Timeline of the source that the pts of its frames count on, from 0: the next one begins with
    a reconnection. None at full speed, and where its frames are of several."""
    loss: float | None = None
    """Training loss; None at inference. May be NaN or infinite: a run that diverged is kept."""

    @property
    def service_ms(self) -> float:
        """The work spent on the step in all stages, waits left out."""
        return sum(self.work_ms.values())

    @property
    def ended_ms(self) -> float:
        """When it came out, since the start of the run."""
        return self.started_ms + self.total_ms


_Milliseconds = tuple[NonNegativeFloat, ...]
_COLUMNS = (
    "step",
    "input",
    "first_index",
    "frames",
    "started_ms",
    "total_ms",
    "arrived_ms",
    "loss",
)
_OPTIONAL = ("oldest_arrived_ms", "capture_latency_ms", "segment")
"""Columns that are empty where no step has a value."""


class Steps(BaseModel):
    """Every `Step`, one column per field: an hour at 30 frames/s in batches of 16 is 0.5 MB."""

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
    total_ms: _Milliseconds = ()
    arrived_ms: tuple[NonNegativeFloat | None, ...] = ()
    loss: tuple[Annotated[float, AllowInfNan(True)] | None, ...] = ()
    oldest_arrived_ms: tuple[NonNegativeFloat | None, ...] = ()
    """Empty where each step has one frame."""
    capture_latency_ms: tuple[float | None, ...] = ()
    """Empty where no sender told its clock."""
    segment: tuple[NonNegativeInt | None, ...] = ()
    """Empty at full speed, and in records made before headrace kept it."""

    @classmethod
    def of(cls, rows: Iterable[Step]) -> Self:
        """The columns of `rows`, whose stages are the same."""
        kept = tuple(rows)
        columns = {
            name: tuple(getattr(row, name) for row in kept) for name in (*_COLUMNS, *_OPTIONAL)
        }
        columns |= {name: () for name in _OPTIONAL if set(columns[name]) <= {None}}
        stages = kept[0].work_ms if kept else ()
        work = {stage: tuple(row.work_ms[stage] for row in kept) for stage in stages}
        return cls(**columns, work_ms=work)

    def rows(self) -> Iterator[Step]:
        """The steps, one at a time."""
        names = (*_COLUMNS, *(name for name in _OPTIONAL if getattr(self, name)))
        for k, values in enumerate(zip(*(getattr(self, name) for name in names), strict=True)):
            work = {stage: column[k] for stage, column in self.work_ms.items()}
            yield Step(**dict(zip(names, values, strict=True)), work_ms=work)

    def __len__(self) -> int:
        return len(self.step)

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        lengths = {name: len(getattr(self, name)) for name in _COLUMNS}
        lengths |= {name: len(getattr(self, name)) for name in _OPTIONAL if getattr(self, name)}
        lengths |= {stage: len(column) for stage, column in self.work_ms.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"all columns need one entry per step, got {lengths}")
        return self


_NUMBERS: Final = tuple(field.name for field in fields(Step) if field.name != "work_ms")
_WHOLE: Final = frozenset(["step", "input", "first_index", "frames", "segment"])


class LatestSteps:
    """Keeps the last `most` steps as columns of numbers: as objects they take ten times as much."""

    def __init__(self, most: int) -> None:
        """None yet."""
        self._most = most
        self._columns = {name: RingBuffer(most) for name in _NUMBERS}
        self._work: dict[str, RingBuffer] = {}

    def append(self, step: Step) -> None:
        """Keep a step; all of them have the same stages."""
        self._work = self._work or {stage: RingBuffer(self._most) for stage in step.work_ms}
        for name, column in self._columns.items():
            value = getattr(step, name)
            column.append(math.nan if value is None else value)
        for stage, column in self._work.items():
            column.append(step.work_ms[stage])

    def __len__(self) -> int:
        return len(self._columns["step"])

    def __iter__(self) -> Iterator[Step]:
        """Yield them, the oldest first."""
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
    return int(number) if name in _WHOLE else number
