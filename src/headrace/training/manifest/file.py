"""The file of a manifest: the rows of a text or Parquet file, as they are written."""

from pathlib import Path
from typing import Final

from headrace.errors import ConfigError, reason_of
from headrace.extras import require
from headrace.training.manifest.places import RowPlaces
from headrace.video.columns import named_columns
from headrace.video.table import Row, read_table

SUFFIXES: Final = (".csv", ".tsv", ".txt", ".jsonl", ".parquet")
_LARGEST_BYTES: Final = 1 << 28


def read_rows(path: Path, what: str = "manifest") -> tuple[list[Row], RowPlaces]:
    """Return the rows of a file, a dict each, and where they stand. Reads all of it.

    Args:
        path: Of the file.
        what: To call it in messages.

    Raises:
        ConfigError: it cannot be read, or is of no such kind.
        BackendError: it is Parquet, and pyarrow is not installed.
    """
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        folders = "; for a folder of a folder for each class there is Manifest.of_folders"
        raise ConfigError(
            f"a {what} is a file that ends in {', '.join(SUFFIXES)}, got {path}"
            f"{folders if what == 'manifest' else ''}"
        )
    if kind == ".parquet":
        rows = _parquet(path, what)
        return rows, RowPlaces.of_rows(len(rows), str(path))
    table = read_table(path, what)
    return table.rows, RowPlaces.of_lines(table.lines, table.name)


def _parquet(path: Path, what: str) -> list[Row]:
    with require("parquet", f"the {what} {path}", "write it as CSV or JSON lines"):
        import pyarrow
        import pyarrow.parquet
    try:
        size = path.stat().st_size
        if size <= _LARGEST_BYTES:
            table = pyarrow.parquet.read_table(path, memory_map=False)
            heads = named_columns(table.column_names, str(path))
            rows: list[Row] = table.rename_columns(heads).to_pylist()
            return rows
    except OSError as error:
        reason = reason_of(error)
        raise ConfigError(f"cannot read the {what} {path}: {reason}; give a file") from error
    except (pyarrow.ArrowException, ValueError) as error:
        raise ConfigError(f"{path} is no Parquet file: {str(error)[:100]}") from error
    raise ConfigError(f"{path} is larger than {_LARGEST_BYTES >> 20} MiB; is it a {what}?")
