"""One run as a value: everything a report says is computed from it, nothing else.

session.save(folder / "session.json")
session = Session.load(folder / "session.json")
"""

from datetime import UTC
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final, Literal, Self, cast

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
)

from headrace.errors import ConfigError
from headrace.profiling.steps import Steps
from headrace.runtime.stage import StageStatistics
from headrace.runtime.statistics import QueueStatistics

StageName = Literal["decode", "preprocess", "transfer", "model", "sink"]
Scalar = str | int | float | bool | None
UtcTime = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]
Share = Annotated[float, Field(ge=0, le=1)]

_VERSION: Final = 1


def _encodable(text: object) -> object:
    """A file name may hold bytes that are no UTF-8; JSON cannot, so they are spelt out."""
    return text.encode(errors="backslashreplace").decode() if isinstance(text, str) else text


Text = Annotated[str, BeforeValidator(_encodable)]


class _Record(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


class Gpu(_Record):
    """One accelerator PyTorch can use."""

    name: str
    memory_bytes: NonNegativeInt


class Machine(_Record):
    """What the run ran on."""

    cpu: str
    """Name of the processor model."""
    physical_cores: PositiveInt | None
    """None where the system does not tell."""
    logical_cores: PositiveInt
    usable_cores: PositiveInt
    """Logical cores this process may run on; smaller than `logical_cores` when it is bound."""
    memory_bytes: NonNegativeInt
    """Installed main memory."""
    system: str
    """Operating system and kernel."""
    python: str
    gpus: tuple[Gpu, ...] = ()
    ffmpeg: dict[str, str] = {}
    """Version of each FFmpeg library, such as `libavcodec`."""


class GopLengths(_Record):
    """Frames from one keyframe up to the next."""

    minimum: PositiveInt
    mean: NonNegativeFloat
    maximum: PositiveInt


class SourceSummary(_Record):
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


class StageRecord(_Record):
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


class QueueRecord(_Record):
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


class DecodeCounters(_Record):
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


class DamagedFrame(_Record):
    """A frame that was asked for and is damaged: left out, or shown as FFmpeg shows it."""

    index: NonNegativeInt
    pts_seconds: float | None
    """None when the stream does not tell."""
    reason: Text


class Session(_Record):
    """One recorded run."""

    version: Literal[1] = _VERSION
    """Of this layout."""
    headrace: str
    """Version of headrace that recorded it."""
    created: UtcTime
    """When the run began."""
    command: tuple[Text, ...]
    """The command line, one argument each."""
    configuration: dict[str, Text | int | float | bool | None]
    """Every option in force, defaults included, by its name with underscores: `batch_size`,
    `stride`, `prep_level`, `device`, `model`."""
    versions: dict[str, str]
    """Of what computes: `python`, `torch`, `torchvision`, `av`, `ffmpeg`."""
    machine: Machine
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
    if () in found or ("headrace",) in found:
        return "it is JSON, but no headrace session; give the session.json of a run folder"
    if ("version",) in found:
        return (
            f"its layout is version {found['version',]['input']!r}, this headrace reads version "
            f"{_VERSION}; read it with the headrace that wrote it, or a newer one"
        )
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg'].lower()}; the file was changed, run headrace run again"
