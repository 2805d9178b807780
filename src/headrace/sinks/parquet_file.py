"""Parquet file, written completely or not at all. Needs pyarrow."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from headrace.atomic_file import partial_of
from headrace.extras import check_extra, require
from headrace.sinks.predictions import writing

_ROW_GROUP: Final = 20_000
"""Rows of a row group: a few MB of memory."""


def check_parquet(what: str, instead: str) -> None:
    """Raise BackendError if pyarrow is not installed: see `require`."""
    check_extra("parquet", what, instead)
    with require("parquet", what, instead):
        import_module("pyarrow.parquet")


class ParquetFile:
    """Writer of rows; the file appears on close, complete."""

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        """Start the file; an existing one is replaced on close.

        Args:
            path: Path of the file.
            columns: Name -> pyarrow type; `[string]` is a list of strings, `timestamp` is UTC in
                microseconds.

        Raises:
            ConfigError: the file cannot be written.
        """
        import pyarrow.parquet

        self._path = path
        self._partial = partial_of(path)
        self._schema: Any = pyarrow.schema([(name, _type(of)) for name, of in columns.items()])
        self._rows: list[dict[str, Any]] = []
        with writing(self._path):
            self._writer: Any = pyarrow.parquet.ParquetWriter(self._partial, self._schema)

    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        """Append rows with a value for each column.

        Raises:
            ConfigError: the file cannot be written, and is removed.
        """
        self._rows += rows
        if len(self._rows) >= _ROW_GROUP:
            self._write_group()

    def close(self, *, is_kept: bool) -> bool:
        """Finish the file, or remove it; return whether it was kept. Idempotent.

        Raises:
            ConfigError: the file cannot be written, and is removed.
        """
        if self._writer is None:
            return False
        self._write_group()
        writer, self._writer = self._writer, None
        with self._writing(writer):
            writer.close()
            if is_kept:
                self._partial.replace(self._path)
            else:
                self._partial.unlink(missing_ok=True)
        return is_kept

    def _write_group(self) -> None:
        import pyarrow

        rows, self._rows = self._rows, []
        if not rows or self._writer is None:
            return
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
