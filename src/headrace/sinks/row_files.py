"""Files of rows: JSON lines, and Parquet tables, which are complete or absent."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TextIO

from headrace.atomic_file import partial_of
from headrace.errors import file_errors
from headrace.extras import check_extra, require
from headrace.runtime.clock import iso_text

Rows = Callable[[Any], list[dict[str, Any]]]
"""Results of a batch → rows, each with a value for every column."""


class LineFile:
    """JSON lines, one per row: a `ResultSink`. Times are ISO 8601 texts: see `iso_text`."""

    def __init__(self, path: Path, rows: Rows, *, name: str) -> None:
        """Start the file; an existing one is replaced.

        Args:
            path: Path of the file.
            rows: Returns the rows of a batch.
            name: Name in messages and records.

        Raises:
            ConfigError: the file cannot be written.
        """
        self.name = name
        self._path = path
        self._rows = rows
        self._is_empty = True
        with writing(path):
            self._file: TextIO = path.open("w", encoding="utf-8")

    def write(self, results: Any) -> None:
        """Append the lines of a batch: see `ResultSink.write`."""
        rows = self._rows(results)
        with writing(self._path):
            self._file.writelines(f"{json_line(row)}\n" for row in rows)
            self._file.flush()  # readers of the open file see complete batches
            self._is_empty = self._is_empty and not rows

    def close(self) -> None:
        """Finish the file, or remove an empty one: see `ResultSink.close`."""
        with writing(self._path):
            self._file.close()
            if self._is_empty:
                self._path.unlink(missing_ok=True)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The file, if it has a line."""
        return () if self._is_empty else (self._path.name,)


_ROW_GROUP: Final = 20_000
"""Rows per row group: a few MB of memory."""


def check_parquet(what: str, instead: str) -> None:
    """Raise BackendError if pyarrow is not installed: see `require`."""
    check_extra("parquet", what, instead)
    with require("parquet", what, instead):
        import_module("pyarrow.parquet")


class TableFile:
    """Parquet table: a `ResultSink`. The file appears on close, complete. Needs pyarrow.

    It is missing without a batch, and empty if no batch had a row.
    """

    def __init__(self, path: Path, columns: Mapping[str, str], rows: Rows, *, name: str) -> None:
        """Start the file; an existing one is replaced on close.

        Args:
            path: Path of the file.
            columns: Name -> pyarrow type; `[string]` is a list of strings, `timestamp` is UTC in
                microseconds.
            rows: Returns the rows of a batch.
            name: Name in messages and records.

        Raises:
            ConfigError: the file cannot be written.
        """
        import pyarrow.parquet

        self.name = name
        self._path = path
        self._partial = partial_of(path)
        self._rows = rows
        self._pending: list[dict[str, Any]] = []
        self._has_batches = self._is_complete = False
        self._schema: Any = pyarrow.schema([(name, _type(kind)) for name, kind in columns.items()])
        with writing(path):
            self._writer: Any = pyarrow.parquet.ParquetWriter(self._partial, self._schema)

    def write(self, results: Any) -> None:
        """Append the rows of a batch: see `ResultSink.write`; a file that fails is removed."""
        self._has_batches = True
        self._pending += self._rows(results)
        if len(self._pending) >= _ROW_GROUP:
            self._write_group()

    def close(self) -> None:
        """Finish the table, or remove one without batches: see `ResultSink.close`."""
        if self._writer is None:
            return
        self._write_group()
        writer, self._writer = self._writer, None
        with self._writing(writer):
            writer.close()
            if self._has_batches:
                self._partial.replace(self._path)
                self._is_complete = True
            else:
                self._partial.unlink(missing_ok=True)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The table, once complete."""
        return (self._path.name,) if self._is_complete else ()

    def _write_group(self) -> None:
        import pyarrow

        rows, self._pending = self._pending, []
        if rows and self._writer is not None:
            with self._writing(self._writer):
                self._writer.write_table(pyarrow.Table.from_pylist(rows, schema=self._schema))

    @contextmanager
    def _writing(self, writer: Any) -> Iterator[None]:
        """Remove the file if the block fails."""
        with writing(self._path):
            try:
                yield
            except OSError:
                self._writer = None
                with suppress(OSError):
                    writer.close()
                with suppress(OSError):
                    self._partial.unlink(missing_ok=True)
                raise


def _type(name: str) -> Any:
    import pyarrow

    if name.startswith("["):
        return pyarrow.list_(_type(name.strip("[]")))
    if name == "timestamp":
        return pyarrow.timestamp("us", tz="UTC")
    return pyarrow.type_for_alias(name)


def json_line(row: dict[str, Any]) -> str:
    """Return a row as JSON, with ISO 8601 times."""
    return json.dumps(row, ensure_ascii=False, default=iso_text)


def writing(path: Path) -> AbstractContextManager[None]:
    """Convert file errors of the block into ConfigError."""
    return file_errors(f"cannot write {path}", "give another folder with --out")
