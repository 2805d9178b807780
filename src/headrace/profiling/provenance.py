"""Where a figure comes from: machine, versions, command, commit and process, as one value."""

from collections.abc import Mapping
from datetime import UTC
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    NonNegativeInt,
    PositiveInt,
)

from headrace.redaction import masked

Scalar = str | int | float | bool | None
UtcTime = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]


def _encodable(text: object) -> object:
    """A file name may hold bytes that are no UTF-8; JSON cannot, so they are spelt out."""
    return text.encode(errors="backslashreplace").decode() if isinstance(text, str) else text


Text = Annotated[str, BeforeValidator(_encodable)]
CommandLine = tuple[Annotated[Text, AfterValidator(masked)], ...]
"""One argument each; passwords in addresses are left out, whoever makes the record."""


_OLD_OVERLOAD: Final = {"every-frame": "keep-all", "freshest": "keep-last"}
"""Value of `overload` in older records -> its value now."""


def _with_current_words(configuration: dict[str, Any]) -> dict[str, Any]:
    overload = configuration.get("overload")
    return (
        configuration | {"overload": _OLD_OVERLOAD[overload]}
        if overload in _OLD_OVERLOAD
        else (configuration)
    )


class Record(BaseModel):
    """A part of what is recorded: frozen, checked when it is read, no field unknown."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


AnyRecord = TypeVar("AnyRecord", bound=Record)


def record_of(kind: type[AnyRecord], found: object, **others: Any) -> AnyRecord:
    """Return the record of what `found` has under the names of its fields, and of `others`."""
    shared = {name: getattr(found, name) for name in kind.model_fields if hasattr(found, name)}
    return kind(**shared | others)


class Gpu(Record):
    """One accelerator PyTorch can use."""

    name: str
    memory_bytes: NonNegativeInt
    driver: str | None = None
    """Version of its driver; None where the system does not tell."""


class Machine(Record):
    """What it ran on."""

    cpu: str
    """Name of the processor model."""
    physical_cores: PositiveInt | None = None
    """None where the system does not tell."""
    logical_cores: PositiveInt | None = None
    """None in records made before headrace kept it."""
    usable_cores: PositiveInt
    """Logical cores this process may run on; smaller than `logical_cores` when it is bound."""
    cores: str | None = None
    """Which ones these are, as `0-3,6`; None where the system cannot bind a process to cores."""
    governor: str | None = None
    """What Linux sets the clock of these cores by, as `performance`; None where it does not tell,
    as in most virtual machines."""
    memory_bytes: NonNegativeInt
    """Installed main memory."""
    available_bytes: NonNegativeInt | None = None
    """Of it, what programs could still take when this was recorded."""
    system: str
    """Operating system and kernel."""
    python: str
    gpus: tuple[Gpu, ...] = ()
    ffmpeg: dict[str, str] = {}
    """Version of each FFmpeg library, such as `libavcodec`."""


class Provenance(Record):
    """When, where, by which process and with what something was recorded."""

    headrace: str
    """Version of headrace."""
    commit: str | None = None
    """Of the checkout headrace was run from, with a + behind it where files differ; None where it
    was installed as a package."""
    created: UtcTime
    """When it began."""
    pid: PositiveInt | None = None
    """Of the process that ran it; None in records made before headrace kept it."""
    command: CommandLine
    """The command line, one argument each."""
    configuration: Annotated[
        dict[str, Text | int | float | bool | None], AfterValidator(_with_current_words)
    ]
    """Every option in force, defaults included, by its name with underscores."""
    machine: Machine
    versions: dict[str, str]
    """Of what computes: `python`, `torch`, `torchvision`, `av`, `ffmpeg`."""


def plain(configuration: Mapping[str, object]) -> dict[str, Scalar]:
    """Return options as a record holds them: several values as text, joined by commas."""
    return {name: _plain(value) for name, value in configuration.items()}


def _plain(value: object) -> Scalar:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return value if isinstance(value, int | float | None) else str(value)
