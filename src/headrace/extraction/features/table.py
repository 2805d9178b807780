"""Tables of features: Parquet files with a row for each chunk, each there whole or not at all."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from headrace.errors import BackendError, ConfigError
from headrace.extraction.features.table_columns import FEATURES, TEXTS, columns_of, schema_of
from headrace.extraction.features.table_facts import TableFacts
from headrace.extraction.features.table_row import FeatureRow
from headrace.text_file import partial_of

PATTERN: Final = "features-*.parquet"
"""What tables of a folder are called."""
MOST_BYTES: Final = 512 << 20
"""Of one table, but for the rows that are written together."""
_GROUP_BYTES: Final = 8 << 20
"""Of features that are written together, and read together later: some ten chunks."""
_GROUP_ROWS: Final = 1024


@dataclass(frozen=True)
class Written:
    """A table that is there whole."""

    path: Path
    chunk_ids: tuple[str, ...]
    """Its chunks, in order."""


def check_tables() -> None:
    """Do nothing if tables can be written and read.

    Raises:
        BackendError: pyarrow is missing; says what adds it.
    """
    if find_spec("pyarrow") is None:
        raise BackendError(
            "features are kept as Parquet tables, and pyarrow is not installed; "
            "pip install 'headrace[parquet]'"
        )


def write_tables(
    folder: Path, rows: Iterable[FeatureRow], facts: TableFacts, *, most_bytes: int = MOST_BYTES
) -> Iterator[Written]:
    """Write rows as new tables beside those that are there; yield each once it is on the disk.

    Rows are taken as they are needed; some 30 MB are held. Tables are read quickest where all rows
    of a video follow each other.

    Args:
        folder: Where the tables lie; it is there.
        rows: What came of the chunks.
        facts: What all of them have in common.
        most_bytes: A table is ended when it is as large; the next one begins.

    Raises:
        ConfigError: they cannot be written, or features are not those that the facts tell of.
            What was yielded stays; of what was not, nothing is left.
    """
    number = _next_number(folder)
    writer: TableWriter | None = None
    try:
        for row in rows:
            if writer is None:
                writer = TableWriter(folder / f"features-{number:05d}.parquet", facts)
                number += 1
            writer.write(row)
            if writer.num_bytes >= most_bytes:
                yield writer.close()
                writer = None
        if writer is not None:
            yield writer.close()
    finally:
        if writer is not None:
            writer.discard()


def write_features(path: Path, rows: Iterable[FeatureRow], facts: TableFacts) -> Written:
    """Write rows as one table: see `write_tables`.

    Raises:
        ConfigError: it cannot be written, or is there already; nothing is left of it.
    """
    with TableWriter(path, facts) as writer:
        for row in rows:
            writer.write(row)
        return writer.close()


class TableWriter:
    """Appends rows to a table, which appears when it is closed; else nothing is left of it."""

    def __init__(self, path: Path, facts: TableFacts) -> None:
        """Begin the table.

        Raises:
            ConfigError: it cannot be written, or is there already.
        """
        import pyarrow.parquet

        if path.exists():
            raise ConfigError(f"{path} is there already; give another name, or delete it")
        self.path = path
        self._facts = facts
        self._partial = partial_of(path)
        self._rows: list[FeatureRow] = []
        self._rows_bytes = 0
        self._chunk_ids: list[str] = []
        with self._telling():
            self._file: BinaryIO = self._partial.open("wb")
        self._writer: Any = pyarrow.parquet.ParquetWriter(
            self._file,
            schema_of(facts),
            compression="zstd",
            use_dictionary=list(TEXTS),
            use_byte_stream_split=[FEATURES],
            write_page_checksum=True,
        )

    @property
    def num_bytes(self) -> int:
        """Bytes that are written, without the rows that wait to be."""
        return self._file.tell()

    def write(self, row: FeatureRow) -> None:
        """Append a row.

        Raises:
            ConfigError: it cannot be written; nothing is left of the table.
        """
        self._rows.append(row)
        self._rows_bytes += row.samples.features.nbytes
        if self._rows_bytes >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self._write_group()

    def close(self) -> Written:
        """Finish the table, on the disk as well.

        Raises:
            ConfigError: it cannot be written; nothing is left of it.
        """
        self._write_group()
        with self._telling():
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self.path)
            _sync(self.path.parent)
        return Written(self.path, tuple(self._chunk_ids))

    def discard(self) -> None:
        """Leave nothing behind of a table that was not closed; harmless on one that was."""
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._partial.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.discard()

    def _write_group(self) -> None:
        rows, self._rows, self._rows_bytes = self._rows, [], 0
        if rows:
            with self._telling():
                self._writer.write_table(columns_of(rows, self._facts))
            self._chunk_ids += [row.chunk_id for row in rows]

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConfigError(
                f"cannot write {self.path}: {(error.strerror or str(error)).lower()}; "
                "give a folder that can be written to"
            ) from error


def _next_number(folder: Path) -> int:
    """Behind all tables that are there, those that were set aside too."""
    found = (path.name.split("-")[1].split(".")[0] for path in folder.glob(f"{PATTERN}*"))
    return max((int(number) for number in found if number.isdecimal()), default=-1) + 1


def _sync(folder: Path) -> None:
    """See that a new name in a folder is on the disk, where the system can."""
    with suppress(PermissionError):  # Windows opens no folder
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)
