"""What every experiment records about itself, and the two files it leaves."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from headrace.errors import ConfigError
from headrace.profiling.machine import describe_machine, versions
from headrace.profiling.session import Machine, Scalar, Text, UtcTime
from headrace.runtime.clock import Clock


class Row(BaseModel):
    """A part of a record."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class Provenance(Row):
    """When, where and with what an experiment was made."""

    headrace: str
    """Version."""
    created: UtcTime
    command: tuple[Text, ...]
    """The command line, one argument each."""
    configuration: dict[str, Text | int | float | bool | None]
    """Every option in force."""
    machine: Machine
    versions: dict[str, str]
    """Of what computes."""

    @classmethod
    def here(
        cls, configuration: Mapping[str, object], command: Sequence[str], clock: Clock
    ) -> Self:
        """Of an experiment that is about to be made in this process."""
        return cls(
            headrace=version("headrace"),
            created=datetime.fromtimestamp(clock.wall_seconds(), UTC),
            command=tuple(command),
            configuration={name: _plain(value) for name, value in configuration.items()},
            machine=describe_machine(),
            versions=versions(),
        )


class Record(Row):
    """An experiment as a value: what it shows is computed from it, nothing else."""

    version: Literal[1] = 1
    """Of this layout."""
    provenance: Provenance


def make_folder(folder: Path) -> None:
    """Make the folder of the results, if need be: before measuring, which takes minutes.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def write_experiment(record: Record, page: str, folder: Path, name: str) -> tuple[Path, Path]:
    """Write `name`.json and `name`.html into `folder`; return their paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    numbers, chart = folder / f"{name}.json", folder / f"{name}.html"
    try:
        numbers.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
        chart.write_text(page, encoding="utf-8")
    except OSError as error:
        raise _unwritable(folder, error) from error
    return numbers, chart


def _unwritable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot write into {folder}: {(error.strerror or str(error)).lower()}; "
        "give a folder that can be written to"
    )


def _plain(value: object) -> Scalar:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return value if isinstance(value, int | float | None) else str(value)
