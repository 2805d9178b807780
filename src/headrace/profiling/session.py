"""Session: the record of one run, and the only input of its report.

session.save(folder / "session.json")
session = Session.load(folder / "session.json")
"""

from pathlib import Path
from typing import Final, Literal, Self

from pydantic import NonNegativeFloat, NonNegativeInt, ValidationError

from headrace.atomic_file import write_whole
from headrace.errors import ConfigError, file_errors
from headrace.profiling.input_records import (
    DecodeStats,
    EventRecord,
    LostFrame,
    SourceRecord,
    SourceSummary,
)
from headrace.profiling.provenance import Provenance, Record, Text, UtcTime
from headrace.profiling.run_records import (
    Alternative,
    LoaderRecord,
    Setup,
    StartUpPart,
    TrainingRecord,
    Usage,
    WorkerRecord,
)
from headrace.profiling.stage_records import ItemCounts, QueueRecord, Share, StageRecord
from headrace.profiling.steps import Steps
from headrace.records import fault_of

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
