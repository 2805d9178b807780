"""One run as a value: everything a report says is computed from it, nothing else.

session.save(folder / "session.json")
session = Session.load(folder / "session.json")
"""

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final, Literal, Self, cast

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
)

from headrace.errors import ConfigError
from headrace.profiling.provenance import Provenance, Record, Text
from headrace.profiling.steps import Steps
from headrace.runtime.stage import StageStatistics
from headrace.runtime.statistics import QueueStatistics

StageName = Literal["decode", "preprocess", "transfer", "model", "sink"]
Share = Annotated[float, Field(ge=0, le=1)]

_VERSION: Final = 2


class GopLengths(Record):
    """Frames from one keyframe up to the next."""

    minimum: PositiveInt
    mean: NonNegativeFloat
    maximum: PositiveInt


class SourceSummary(Record):
    """The video as it was found."""

    path: Text
    codec: str
    height: PositiveInt
    """Of the coded picture, before rotation."""
    width: PositiveInt
    frame_rate: Fraction
    """Average, frames per second."""
    frames: NonNegativeInt
    duration_seconds: NonNegativeFloat
    gop: GopLengths | None
    """None when no packet was looked at."""
    has_b_frames: bool
    is_vfr: bool
    """The time between frames varies."""
    rotation: Literal[0, 90, 180, 270]
    """Degrees clockwise from the coded to the upright picture."""
    counted_by: Literal["packets", "decode"]
    """How `frames` was found: from the packets alone, or by decoding everything."""


class StageRecord(Record):
    """What the workers of one stage did with their time. Seconds are summed over the workers."""

    name: StageName
    workers: PositiveInt
    items: NonNegativeInt
    """Batches it finished."""
    busy_seconds: NonNegativeFloat
    """At work. Near the run's length for one worker: this stage sets the pace."""
    starved_seconds: NonNegativeFloat
    """Waiting for input: what comes before is slower."""
    blocked_seconds: NonNegativeFloat
    """Waiting for room: what comes after is slower."""

    @classmethod
    def of(cls, found: StageStatistics) -> Self:
        """The record of a stage that is called by its `StageName`."""
        return cls(
            name=cast(StageName, found.name),
            workers=found.workers,
            items=found.items,
            busy_seconds=found.busy_seconds,
            starved_seconds=found.starved_seconds,
            blocked_seconds=found.blocked_seconds,
        )


class QueueRecord(Record):
    """One bounded queue between two stages."""

    name: str
    feeds: StageName | None
    """The stage that takes from it; None for the one behind the last stage."""
    capacity: PositiveInt
    """Batches it can hold."""
    puts: NonNegativeInt
    gets: NonNegativeInt
    elapsed_seconds: NonNegativeFloat
    """How long it was watched; `occupancy_mean` is over this time."""
    occupancy_mean: Share
    """Time-weighted share of the capacity in use. Near 1: what comes after is slower."""
    occupancy_max: Share
    starved_seconds: NonNegativeFloat
    """Consumers waited for input, summed over them."""
    blocked_seconds: NonNegativeFloat
    """Producers waited for room, summed over them."""
    wait_ms_p50: NonNegativeFloat | None
    """Half of the batches lay in the queue at most this long; None when none came out."""
    wait_ms_p95: NonNegativeFloat | None

    @classmethod
    def of(cls, found: QueueStatistics, *, feeds: StageName | None) -> Self:
        """The record of a queue in front of the stage `feeds`."""
        return cls(
            name=found.name,
            feeds=feeds,
            capacity=found.capacity,
            puts=found.puts,
            gets=found.gets,
            elapsed_seconds=found.elapsed_seconds,
            occupancy_mean=found.mean_occupancy,
            occupancy_max=found.max_occupancy,
            starved_seconds=found.starved_seconds,
            blocked_seconds=found.blocked_seconds,
            wait_ms_p50=found.wait_ms.p50 if found.wait_ms else None,
            wait_ms_p95=found.wait_ms.p95 if found.wait_ms else None,
        )


class DecodeCounters(Record):
    """What the decoder was made to do."""

    packets_read: NonNegativeInt
    bytes_read: NonNegativeInt
    """Of video packets."""
    frames_decoded: NonNegativeInt
    """Frames the decoder produced, thrown away or not."""
    frames_delivered: NonNegativeInt
    """Frames somebody asked for."""
    seeks: NonNegativeInt
    opens: NonNegativeInt


class DamagedFrame(Record):
    """A frame that was asked for and is damaged: left out, or shown as FFmpeg shows it."""

    index: NonNegativeInt
    pts_seconds: float | None
    """None when the stream does not tell."""
    reason: Text


class Session(Record):
    """One recorded run."""

    version: Literal[2] = _VERSION
    """Of this layout."""
    provenance: Provenance
    """When, where and with what it was recorded; the options in force among it."""
    source: SourceSummary
    pace: Literal["full_speed", "schedule", "arrival", "capture"] = "full_speed"
    """What set the pace: the pipeline itself, the timetable of a file played in real time, a
    live source, or its capture clock. At full speed there is no latency, only service time."""
    outcome: Literal["complete", "interrupted", "failed"]
    error: Text | None = None
    """Why it failed, in the words the user saw."""
    wall_seconds: NonNegativeFloat
    """From the start of the run until its last output was closed."""
    warmup_steps: NonNegativeInt = 0
    """The first steps, which every figure but the totals leaves out."""
    steps: Steps = Steps()
    stages: tuple[StageRecord, ...] = ()
    """In the order the frames take."""
    queues: tuple[QueueRecord, ...] = ()
    """In the order the frames take."""
    decode: DecodeCounters
    damaged: tuple[DamagedFrame, ...] = ()
    """In order of output."""
    outputs: tuple[Text, ...] = ()
    """Files the run wrote, relative to its folder."""

    def save(self, path: Path) -> None:
        """Writes it as JSON; the file appears whole or not at all.

        Raises:
            ConfigError: The file cannot be written there.
        """
        partial = path.with_name(f".{path.name}.partial")
        try:
            partial.write_text(self.model_dump_json() + "\n", encoding="utf-8")
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise ConfigError(
                f"cannot write {path}: {error.strerror}; give a folder that can be written to"
            ) from error

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what `save` wrote; about 0.1 s for 100,000 steps.

        Raises:
            ConfigError: The file is missing, damaged, from a newer headrace or not a session.
        """
        try:
            text = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot read {path}: {error.strerror}; give the session.json of a run folder"
            ) from error
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ConfigError(f"cannot read {path}: {_diagnosis(error)}") from error


def _diagnosis(error: ValidationError) -> str:
    """What is wrong with the file, and what to do about it."""
    problems = error.errors(include_url=False)
    first = problems[0]
    if first["type"] == "json_invalid":
        return "it is damaged or cut off, not whole JSON; run headrace run again"
    found = {problem["loc"]: problem for problem in problems}
    if () in found or ("provenance",) in found:
        return "it is JSON, but no headrace session; give the session.json of a run folder"
    if ("version",) in found:
        return (
            f"its layout is version {found['version',]['input']!r}, this headrace reads version "
            f"{_VERSION}; read it with the headrace that wrote it, or a newer one"
        )
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg'].lower()}; the file was changed, run headrace run again"
