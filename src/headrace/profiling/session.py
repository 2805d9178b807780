"""Session: the record of one run and its steps, and the only input of its report.

session.save(folder / "session.json")
session = Session.load(folder / "session.json")
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AllowInfNan,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    ValidationError,
    model_validator,
)

from headrace.atomic_file import write_whole
from headrace.errors import ConfigError, file_errors
from headrace.profiling.input_records import (
    DecodeStats,
    EventRecord,
    LostFrame,
    SourceRecord,
    SourceSummary,
)
from headrace.profiling.provenance import Provenance, Record, Share, Text, UtcTime
from headrace.profiling.run_records import (
    Alternative,
    ItemCounts,
    LoaderRecord,
    QueueRecord,
    Setup,
    StageRecord,
    StartUpPart,
    TrainingRecord,
    Usage,
    WorkerRecord,
)
from headrace.records import fault_of
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


Kind = Literal["run", "live", "retrain", "extract", "loader"]
"""`run`: a model on files; `live`: a model on live sources; `retrain`: training of a head;
`extract`: extraction of frames or features; `loader`: a profiled training loop."""
Pace = Literal["full_speed", "schedule", "arrival", "capture"]
Outcome = Literal["complete", "interrupted", "failed"]

NOT_ALL: Final = 3
"""Exit code of a command that completed without a part of its output; the command names it."""
_VERSION: Final = 2
"""Version of the layout of a session."""


class Session(Record):
    """One recorded run."""

    version: Literal[2] = _VERSION
    """Version of the layout."""
    kind: Kind = "run"
    provenance: Provenance
    """Machine, versions, command and all options."""
    setup: Setup = Setup()
    """Options that determine the speed."""
    inputs: tuple[SourceSummary, ...] = ()
    """Videos; empty for endless and for unknown input."""
    pace: Pace = "full_speed"
    """Start of latency: the schedule of a file in real time, arrival from a live source, or its
    capture clock. A file at full speed has no latency, only service time."""
    started: UtcTime | None = None
    """Wall-clock time of the start of the run; None at full speed, and in older records."""
    outcome: Outcome
    error: Text | None = None
    """Message of the error that ended the run."""
    wall_seconds: NonNegativeFloat
    """From the start of the run to the close of its last output."""
    startup: tuple[StartUpPart, ...] = ()
    """Parts of the start-up, in order; not included in `wall_seconds`."""
    others_cpu_share: Share | None = None
    """CPU share of other programs during the run; None: unknown."""
    usage: Usage | None = None
    """None in older records."""
    warmup_steps: NonNegativeInt = 0
    """Number of first steps that only the totals include."""
    steps: Steps = Steps()
    stages: tuple[StageRecord, ...] = ()
    """In the order of the frames."""
    workers: tuple[WorkerRecord, ...] = ()
    """Processes of an extraction, by name; empty in other kinds of session."""
    queues: tuple[QueueRecord, ...] = ()
    """In the order of the frames."""
    items: ItemCounts | None = None
    """Counts of all items; None if items are not counted."""
    sources: tuple[SourceRecord, ...] = ()
    """Live sources, in the order given; `input` of a step is an index in them."""
    events: tuple[EventRecord, ...] = ()
    """Events of sources and sinks, in order."""
    loader: LoaderRecord | None = None
    """Loader of the training loop; None in other kinds of session."""
    decode: DecodeStats
    lost: tuple[LostFrame, ...] = ()
    """Damaged frames and lost videos, in order of output."""
    alternatives: tuple[Alternative, ...] = ()
    """Other settings, measured after the run."""
    training: TrainingRecord | None = None
    """Result of the training; None in other kinds of session."""
    notes: tuple[Text, ...] = ()
    """Decisions before the run, one sentence each: for example, why this batch size."""
    outputs: tuple[Text, ...] = ()
    """Files of the run, relative to its folder."""

    def save(self, path: Path) -> None:
        """Write the session as JSON, atomically.

        Raises:
            ConfigError: the file cannot be written.
        """
        write_whole(path, self.model_dump_json() + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a saved session; about 0.1 s for 100,000 steps.

        Raises:
            ConfigError: the file is missing, damaged, from a newer headrace, or not a session.
        """
        with file_errors(f"cannot read {path}", "give the session.json of a run folder"):
            text = path.read_bytes()
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ConfigError(f"cannot read {path}: {_diagnose(error)}") from error


def _diagnose(error: ValidationError) -> str:
    """Return the problem of the file, and the fix."""
    problems = error.errors(include_url=False)
    if problems[0]["type"] == "json_invalid":
        return f"{fault_of(error)}; record it again"
    faults = {problem["loc"]: problem for problem in problems}
    is_old = ("headrace",) in faults and ("version",) in faults
    if () in faults or (("provenance",) in faults and not is_old):
        return "it is JSON, but not a headrace session; give the session.json of a run folder"
    if ("version",) in faults:
        return (
            f"its layout is version {faults['version',]['input']!r}, this headrace reads version "
            f"{_VERSION}; read it with the headrace that wrote it, or a newer one"
        )
    return f"{fault_of(error)}; the file was changed, record it again"
