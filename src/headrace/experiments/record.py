"""What every experiment records about itself, and the two files it leaves."""

from pathlib import Path

from pydantic import PositiveInt

from headrace.errors import ConfigError
from headrace.profiling.provenance import Provenance, Record
from headrace.report.experiment import ExperimentPage, render_experiment


class ExperimentRecord(Record):
    """An experiment as a value: what it shows is computed from it, nothing else."""

    version: PositiveInt = 1
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


def write_experiment(
    record: ExperimentRecord, page: ExperimentPage, folder: Path, name: str
) -> tuple[Path, Path]:
    """Write `name`.json and `name`.html into `folder`; return their paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    numbers, chart = folder / f"{name}.json", folder / f"{name}.html"
    html = render_experiment(page)
    try:
        numbers.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
        chart.write_text(html, encoding="utf-8")
    except OSError as error:
        raise _unwritable(folder, error) from error
    return numbers, chart


def _unwritable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot write into {folder}: {(error.strerror or str(error)).lower()}; "
        "give a folder that can be written to"
    )
