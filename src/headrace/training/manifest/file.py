"""The file of a manifest: the rows of a CSV, JSON lines or Parquet file, as they are written."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from headrace.errors import BackendError, ConfigError

Row = dict[str, Any]

SUFFIXES: Final = (".csv", ".tsv", ".jsonl", ".parquet")
_LARGEST_BYTES: Final = 1 << 28


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file: a dict each, from column to what stands there. Reads all of it.

    Raises:
        ConfigError: it cannot be read, or is of no such kind.
        BackendError: it is Parquet, and pyarrow is not installed.
    """
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        raise ConfigError(
            f"a manifest is a file that ends in {', '.join(SUFFIXES)}, got {path}; for a folder of "
            "a folder for each class there is Manifest.of_folders"
        )
    try:
        size = path.stat().st_size
        if size > _LARGEST_BYTES:
            raise ConfigError(
                f"{path} is larger than {_LARGEST_BYTES >> 20} MiB; is it a manifest?"
            )
        if kind == ".parquet":
            return _parquet(path)
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"cannot read the manifest {path}: {reason}; give a file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the manifest {path} is no text in UTF-8; write it as such") from error
    if "\0" in text:
        raise ConfigError(f"the manifest {path} holds a character 0; is it a text?")
    return list(_json_lines(path, text) if kind == ".jsonl" else _separated(path, text, kind))


def _separated(path: Path, text: str, kind: str) -> Iterator[Row]:
    reader = csv.DictReader(
        io.StringIO(text, newline=""),
        delimiter="\t" if kind == ".tsv" else ",",
        skipinitialspace=True,
    )
    try:
        heads = [head.strip() for head in reader.fieldnames or ()]
        if len(set(heads)) < len(heads):
            twice = next(head for head in heads if heads.count(head) > 1)
            raise ConfigError(f"{path} has two columns {twice!r}; give each a name of its own")
        reader.fieldnames = heads
        for row in reader:
            if None in row:
                raise ConfigError(
                    f"line {reader.line_num} of {path} has more values than the first line has "
                    'columns; write one with a comma in quotes, as in "cats, dogs"'
                )
            yield row
    except csv.Error as error:
        raise ConfigError(f"{path} is no CSV behind line {reader.line_num}: {error}") from error


def _json_lines(path: Path, text: str) -> Iterator[Row]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"line {number} of {path} is no JSON: {line[:60]!r}") from error
        if not isinstance(row, dict):
            raise ConfigError(
                f"line {number} of {path} is no JSON object, such as "
                f'{{"path": "a.mp4", "label": "cats"}}: {line[:60]!r}'
            )
        yield row


def _parquet(path: Path) -> list[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise BackendError(
            f"the manifest {path} is Parquet, and pyarrow is not installed; pip install "
            "'headrace[parquet]', or write it as CSV or JSON lines"
        ) from error
    try:
        rows: list[Row] = pyarrow.parquet.read_table(path, memory_map=False).to_pylist()
    except (pyarrow.ArrowException, ValueError) as error:
        raise ConfigError(f"{path} is no Parquet file: {str(error)[:100]}") from error
    return rows
