"""One recorded session as a value: what a report says is computed from it, nothing else.

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
from headrace.profiling.resource_usage import Usage
from headrace.profiling.run_records import (
    Alternative,
    LoaderRecord,
    Setup,
    StartUpPart,
    TrainingRecord,
    WorkerRecord,
)
from headrace.profiling.stage_records import ItemCounts, QueueRecord, Share, StageRecord
from headrace.profiling.steps import Steps
from headrace.records import fault_of

Kind = Literal["run", "live", "retrain", "extract", "loader"]
"""A model on files; on what comes as it comes; training a head; writing frames or features; a
training loop's own loader."""
Pace = Literal["full_speed", "schedule", "arrival", "capture"]
Outcome = Literal["complete", "interrupted", "failed"]

_VERSION: Final = 2


class Session(Record):
    """One recorded run."""

    version: Literal[2] = _VERSION
    """Of this layout."""
    kind: Kind = "run"
    """What it was."""
    provenance: Provenance
    """When, where and with what it was recorded; the options in force among it."""
    setup: Setup = Setup()
    """The options that set its pace."""
    inputs: tuple[SourceSummary, ...] = ()
    """The videos; none where what was read has no end, or is not known."""
    pace: Pace = "full_speed"
    """What set the pace: the pipeline itself, the timetable of a file played in real time, a
    live source, or its capture clock. At full speed there is no latency, only service time."""
    started: UtcTime | None = None
    """Wall time of the start of the run; None at full speed, and in records made before headrace
    kept it."""
    outcome: Outcome
    error: Text | None = None
    """Why it failed, in the words the user saw."""
    wall_seconds: NonNegativeFloat
    """From the start of the run until its last output was closed."""
    startup: tuple[StartUpPart, ...] = ()
    """What passed before the run began, in order; not part of `wall_seconds`."""
    others_cpu_share: Share | None = None
    """Of all processor time that was used during the run, that of other programs; None where the
    system does not tell."""
    usage: Usage | None = None
    """What it took of the machine; None in records made before headrace kept it."""
    warmup_steps: NonNegativeInt = 0
    """The first steps, which every figure but the totals leaves out."""
    steps: Steps = Steps()
    stages: tuple[StageRecord, ...] = ()
    """In the order the frames take."""
    workers: tuple[WorkerRecord, ...] = ()
    """Processes of an extraction, in order of their names; empty in sessions of any other kind."""
    queues: tuple[QueueRecord, ...] = ()
    """In the order the frames take."""
    items: ItemCounts | None = None
    """What became of all that came in; None where nothing flowed."""
    sources: tuple[SourceRecord, ...] = ()
    """What was read as it came, in the order it was asked for; a step's `input` is a place here."""
    events: tuple[EventRecord, ...] = ()
    """What happened to the sources and sinks, in order."""
    loader: LoaderRecord | None = None
    """What a training loop took its batches from; None in sessions of any other kind."""
    decode: DecodeStats
    lost: tuple[LostFrame, ...] = ()
    """In order of output."""
    alternatives: tuple[Alternative, ...] = ()
    """What other settings were measured to bring, after the run."""
    training: TrainingRecord | None = None
    """What was learnt; None where nothing was trained."""
    notes: tuple[Text, ...] = ()
    """What was decided before it began, in words: the batch size that was chosen, and why."""
    outputs: tuple[Text, ...] = ()
    """Files the run wrote, relative to its folder."""

    def save(self, path: Path) -> None:
        """Writes it as JSON; the file appears whole or not at all.

        Raises:
            ConfigError: The file cannot be written there.
        """
        write_whole(path, self.model_dump_json() + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what `save` wrote; about 0.1 s for 100,000 steps.

        Raises:
            ConfigError: The file is missing, damaged, from a newer headrace or not a session.
        """
        with file_errors(f"cannot read {path}", "give the session.json of a run folder"):
            text = path.read_bytes()
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ConfigError(f"cannot read {path}: {_diagnosis(error)}") from error


def _diagnosis(error: ValidationError) -> str:
    """What is wrong with the file, and what to do about it."""
    problems = error.errors(include_url=False)
    if problems[0]["type"] == "json_invalid":
        return f"{fault_of(error)}; record it again"
    found = {problem["loc"]: problem for problem in problems}
    is_old = ("headrace",) in found and ("version",) in found
    if () in found or (("provenance",) in found and not is_old):
        return "it is JSON, but no headrace session; give the session.json of a run folder"
    if ("version",) in found:
        return (
            f"its layout is version {found['version',]['input']!r}, this headrace reads version "
            f"{_VERSION}; read it with the headrace that wrote it, or a newer one"
        )
    return f"{fault_of(error)}; the file was changed, record it again"
