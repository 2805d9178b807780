"""The steps of a run, one batch each, kept as columns."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Self

from pydantic import (
    AllowInfNan,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    model_validator,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One batch on its way from the decoder to the sink. Times are milliseconds of wall clock."""

    step: int
    """0-based, in order of output; warm-up steps come first and count."""
    first_index: int
    """Index of the first frame of the batch in the video."""
    frames: int
    """Frames in the batch; only the last batch may be smaller than the others."""
    started_ms: float
    """When its decoding began, since the start of the run."""
    read_ms: float
    """Reading packets and decoding them."""
    prep_ms: float
    """From decoded frames to the tensor the model takes."""
    exec_ms: float
    """The model, until its output is there: on a GPU until the work is complete."""
    sink_ms: float
    """Drawing and writing the result."""
    total_ms: float
    """From `started_ms` until the sink returned, the waits in the queues included: the step came
    out at `started_ms + total_ms`. At full speed this grows with the queues; not a latency."""
    loss: float | None = None
    """Training loss; None at inference. May be NaN or infinite: a run that diverged is kept."""

    @property
    def service_ms(self) -> float:
        """The work spent on the step in all stages, waits left out."""
        return self.read_ms + self.prep_ms + self.exec_ms + self.sink_ms


_Milliseconds = tuple[NonNegativeFloat, ...]


class Steps(BaseModel):
    """Every `Step`, one column per field: an hour at 30 frames/s in batches of 16 is 0.5 MB."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="strings"
    )

    step: tuple[NonNegativeInt, ...] = ()
    first_index: tuple[NonNegativeInt, ...] = ()
    frames: tuple[Annotated[int, Field(ge=1)], ...] = ()
    started_ms: _Milliseconds = ()
    read_ms: _Milliseconds = ()
    prep_ms: _Milliseconds = ()
    exec_ms: _Milliseconds = ()
    sink_ms: _Milliseconds = ()
    total_ms: _Milliseconds = ()
    loss: tuple[Annotated[float, AllowInfNan(True)] | None, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[Step]) -> Self:
        """The columns of `rows`."""
        kept = tuple(rows)
        return cls(**{name: tuple(getattr(row, name) for row in kept) for name in _COLUMNS})

    def rows(self) -> Iterator[Step]:
        """The steps, one at a time."""
        for values in zip(*(getattr(self, name) for name in _COLUMNS), strict=True):
            yield Step(**dict(zip(_COLUMNS, values, strict=True)))

    def __len__(self) -> int:
        return len(self.step)

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        lengths = {name: len(getattr(self, name)) for name in _COLUMNS}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"all columns need one entry per step, got {lengths}")
        return self


_COLUMNS = tuple(field.name for field in fields(Step))
