"""Provenance of a record: machine, versions, command, commit, process."""

from collections.abc import Mapping
from datetime import UTC
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
)

from headrace.redaction import masked

Scalar = str | int | float | bool | None
UtcTime = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]


def _encodable(text: object) -> object:
    """Return text with bytes that are not UTF-8 escaped, as file names may have them."""
    return text.encode(errors="backslashreplace").decode() if isinstance(text, str) else text


Text = Annotated[str, BeforeValidator(_encodable)]
Share = Annotated[float, Field(ge=0, le=1)]
CommandLine = tuple[Annotated[Text, AfterValidator(masked)], ...]
"""Command line, one argument each; passwords in addresses are masked."""


_OLD_OVERLOAD: Final = {"every-frame": "keep-all", "freshest": "keep-last"}
"""Value of `overload` in older records → current value."""


def _with_current_words(configuration: dict[str, Any]) -> dict[str, Any]:
    if (overload := configuration.get("overload")) in _OLD_OVERLOAD:
        return configuration | {"overload": _OLD_OVERLOAD[overload]}
    return configuration


class Record(BaseModel):
    """Base of recorded values: frozen and validated; unknown fields are an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


AnyRecord = TypeVar("AnyRecord", bound=Record)


def record_of(kind: type[AnyRecord], source: object, **others: Any) -> AnyRecord:
    """Return a record with the fields in `others`; other fields are attributes of `source`."""
    shared = {name: getattr(source, name) for name in kind.model_fields if hasattr(source, name)}
    return kind(**shared | others)


class Gpu(Record):
    """One GPU that PyTorch can use."""

    name: str
    memory_bytes: NonNegativeInt
    driver: str | None = None
    """Version of the driver; None: unknown."""


class Machine(Record):
    """Hardware and operating system."""

    cpu: str
    """Name of the CPU model."""
    physical_cores: PositiveInt | None = None
    """None: unknown."""
    logical_cores: PositiveInt | None = None
    """None in older records."""
    usable_cores: PositiveInt
    """Number of logical cores in the CPU affinity of the process."""
    cores: str | None = None
    """The usable cores: `0-3,6`; None if the system has no CPU affinity."""
    governor: str | None = None
    """Frequency governor of the usable cores on Linux: `performance`; None: unknown, as in most
    virtual machines."""
    memory_bytes: NonNegativeInt
    """Installed main memory."""
    available_bytes: NonNegativeInt | None = None
    """Available memory when the record was created."""
    system: str
    """Operating system and kernel."""
    python: str
    gpus: tuple[Gpu, ...] = ()
    ffmpeg: dict[str, str] = {}
    """FFmpeg library (`libavcodec`) → version."""


TRIED: Final = "tried"
"""Key of the configuration for the advised change that `--apply-advice` tried in the run; also the
name of the run's folder, in the folder of the first run."""


class Provenance(Record):
    """Time, process, command, options, machine and versions of a record."""

    headrace: str
    """Version of headrace."""
    commit: str | None = None
    """Commit of headrace's checkout, with a trailing + if files differ; None if headrace is
    installed as a package."""
    created: UtcTime
    """Start of the recorded work."""
    pid: PositiveInt | None = None
    """Process id; None in older records."""
    command: CommandLine
    configuration: Annotated[
        dict[str, Text | int | float | bool | None], AfterValidator(_with_current_words)
    ]
    """Option, with underscores in its name → value, defaults included."""
    machine: Machine
    versions: dict[str, str]
    """Versions of `python`, `torch`, `torchvision`, `av`, `ffmpeg` and others."""


def plain(configuration: Mapping[str, object]) -> dict[str, Scalar]:
    """Return options as they are recorded: a tuple is text, joined by commas."""
    return {name: _to_scalar(value) for name, value in configuration.items()}


def _to_scalar(value: object) -> Scalar:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return value if isinstance(value, int | float | None) else str(value)
