"""A Parquet file that is there whole, on the disk too, or not at all. Needs pyarrow."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

from headrace.errors import ConfigError, file_errors
from headrace.text_file import partial_of


class TableOutput:
    """Appends columns; the file appears when it is closed. Left otherwise, nothing stays of it.

    with TableOutput(path, schema) as output:
        output.write(columns)
        output.close()
    """

    def __init__(self, path: Path, schema: Any, **how: Any) -> None:
        """Begin the file.

        Args:
            path: Where it will lie.
            schema: Its columns, as pyarrow has them.
            how: Options of pyarrow's `ParquetWriter`.

        Raises:
            ConfigError: it cannot be written, or is there already.
        """
        import pyarrow.parquet

        self.path = path
        """Where it will lie."""
        self._partial = partial_of(path)
        if path.exists():
            raise ConfigError(f"{path} is there already; give another name, or delete it")
        with self._telling():
            self._file: BinaryIO = self._partial.open("wb")
        self._writer: Any = pyarrow.parquet.ParquetWriter(
            self._file, schema, compression="zstd", write_page_checksum=True, **how
        )

    @property
    def num_bytes(self) -> int:
        """Bytes that were written so far."""
        return self._file.tell()

    def write(self, columns: Any) -> None:
        """Append a table of pyarrow, as rows that are read together.

        Raises:
            ConfigError: it cannot be written.
        """
        with self._telling():
            self._writer.write_table(columns)

    def close(self) -> None:
        """Finish the file; return when it is on the disk, so that its source may go.

        Raises:
            ConfigError: it cannot be written.
        """
        with self._telling():
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self.path)
            _sync(self.path.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave nothing behind of a file that was not closed."""
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._partial.unlink(missing_ok=True)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        with file_errors(f"cannot write {self.path}", "give a place that can be written to"):
            yield


def _sync(folder: Path) -> None:
    """See that a new name in a folder is on the disk."""
    with suppress(PermissionError):  # one that may be written to and not be listed
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)
