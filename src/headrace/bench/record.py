"""What every experiment records about itself, and the two files it leaves."""

from pathlib import Path

from pydantic import PositiveInt

from headrace.errors import ConfigError
from headrace.profiling.provenance import Provenance, Record
from headrace.report.experiment import ExperimentPage, render_experiment
from headrace.text_file import write_whole
from headrace.video.source import refuse_address


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
    refuse_address(folder, is_output=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot write into {folder}: {(error.strerror or str(error)).lower()}; "
            "give a folder that can be written to"
        ) from error


def write_experiment(
    record: ExperimentRecord, page: ExperimentPage, folder: Path, name: str
) -> tuple[Path, Path]:
    """Write `name`.json and `name`.html into `folder`; return their paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    numbers, chart = folder / f"{name}.json", folder / f"{name}.html"
    write_whole(numbers, record.model_dump_json(indent=1) + "\n")
    write_whole(chart, render_experiment(page))
    return numbers, chart
