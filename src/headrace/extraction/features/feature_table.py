"""Parquet tables of features: writer and reader."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import compress, starmap
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Self

from headrace.atomic_file import partial_of
from headrace.errors import ConfigError, file_errors
from headrace.extraction.features.feature_result import ChunkResult
from headrace.extraction.features.table_columns import (
    FEATURES,
    METADATA,
    TEXTS,
    TableFacts,
    columns_of,
    row_of,
    schema_of,
)
from headrace.extraction.journal import Lost, Outcome


class TableOutput:
    """Writer of a Parquet file, which appears when it is closed; without `close`, it is removed.

    with TableOutput(path, schema) as output:
        output.write(columns)
        output.close()
    """

    def __init__(self, path: Path, schema: Any, **options: Any) -> None:
        """Open the file.

        Args:
            path: Path of the finished file.
            schema: pyarrow schema.
            options: Options of pyarrow's `ParquetWriter`.

        Raises:
            ConfigError: the file cannot be written, or exists.
        """
        import pyarrow.parquet

        self.path = path
        """Path of the finished file."""
        self._partial = partial_of(path)
        if path.exists():
            raise ConfigError(f"{path} already exists; give another name, or delete it")
        with self._table_errors():
            self._file: BinaryIO = self._partial.open("wb")
        self._writer: Any = pyarrow.parquet.ParquetWriter(
            self._file, schema, compression="zstd", write_page_checksum=True, **options
        )

    @property
    def num_bytes(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def write(self, columns: Any) -> None:
        """Append a pyarrow table as one row group.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._table_errors():
            self._writer.write_table(columns)

    def close(self) -> None:
        """Finish the file and sync it to disk; its sources may then be removed.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._table_errors():
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self.path)
            _sync(self.path.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Remove a file that was not closed."""
        for end in (self._writer.close, self._file.close, self._partial.unlink):
            with suppress(OSError):
                end()

    def _table_errors(self) -> AbstractContextManager[None]:
        return file_errors(f"cannot write {self.path}", "give a writable path")


def _sync(folder: Path) -> None:
    """Sync the directory entries of a folder to disk."""
    with suppress(PermissionError):  # a folder may be writable but not readable
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


PATTERN: Final = "features-*.parquet"
"""Glob pattern of the tables of a folder."""
_TABLE_BYTES: Final = 512 << 20
"""Bytes after which a table ends, except for its last row group."""
_GROUP_BYTES: Final = 8 << 20
"""Bytes of features per row group: about ten chunks."""
_GROUP_ROWS: Final = 1024


@dataclass(frozen=True)
class Written:
    """One written table."""

    path: Path
    chunk_ids: tuple[str, ...]
    """Its chunks, in order."""


def write_tables(
    folder: Path, rows: Iterable[ChunkResult], facts: TableFacts, *, table_bytes: int = _TABLE_BYTES
) -> Iterator[Written]:
    """Write rows as new tables beside existing ones; yield each table when it is on disk.

    Rows are consumed as needed; about 30 MB stay in memory. Reading is fastest if the rows of a
    video are consecutive.

    Args:
        folder: Folder of the tables; it exists.
        rows: Results of chunks.
        facts: Facts shared by all rows.
        table_bytes: Bytes after which a table ends and the next one starts.

    Raises:
        ConfigError: a table cannot be written, or features do not match the facts. Yielded tables
            stay; unfinished ones are removed.
    """
    number = _next_number(folder)
    groups = _row_groups(rows)
    group = next(groups, None)
    while group is not None:
        path = folder / f"features-{number:05d}.parquet"
        chunk_ids: list[str] = []
        with TableOutput(
            path, schema_of(facts), use_dictionary=list(TEXTS), use_byte_stream_split=[FEATURES]
        ) as output:
            while group is not None:
                output.write(columns_of(group, facts))
                chunk_ids += [row.chunk_id for row in group]
                group = None if output.num_bytes >= table_bytes else next(groups, None)
            output.close()
        yield Written(path, tuple(chunk_ids))
        number += 1
        group = next(groups, None)


def _row_groups(rows: Iterable[ChunkResult]) -> Iterator[list[ChunkResult]]:
    """Yield lists of rows, one per row group."""
    group: list[ChunkResult] = []
    num_bytes = 0
    for row in rows:
        group.append(row)
        num_bytes += row.samples.features.nbytes
        if num_bytes >= _GROUP_BYTES or len(group) >= _GROUP_ROWS:
            yield group
            group, num_bytes = [], 0
    if group:
        yield group


def _next_number(folder: Path) -> int:
    """Return the number after the last existing table, damaged ones included."""
    numbers = (path.name.split("-")[1].split(".")[0] for path in folder.glob(f"{PATTERN}*"))
    return max((int(digits) for digits in numbers if digits.isdecimal()), default=-1) + 1


_LISTED: Final = (
    *("chunk_id", "video", "path", "status"),
    *("index", "is_concealed", "lost_index", "lost_cause"),
)
"""Columns that `TableFile.listed` reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """One row of the list of a table, and its position."""

    chunk_id: str
    video: str
    """Name of its video in the folder."""
    path: str
    """Path of its video at the time of extraction."""
    status: Literal["done", "failed"]
    first: int
    """Index of the first sample; -1 without samples."""
    outcome: Outcome
    """Counts of the chunk, without its features."""
    table: "TableFile"
    group: int
    """Index of its row group, the unit of reading."""
    place: int
    """Index of the row in its group."""


_REMEDY: Final = "delete it and run the same extraction again to recompute its content"


class TableFile:
    """Table with an intact footer. Holds no open file; for one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Read only the footer.

        Raises:
            ConfigError: the file is not a table of features, is damaged, or cannot be read.
        """
        import pyarrow.parquet

        self.path = path
        with self._table_errors():
            with pyarrow.parquet.ParquetFile(path) as file:
                self._metadata: Any = file.metadata
                schema = file.schema_arrow
            metadata = (schema.metadata or {}).get(METADATA)
            if metadata is None:
                raise ConfigError(f"{path} is not a table of features; move it elsewhere")
            try:
                self.facts = TableFacts.parse(metadata.decode(), path)
                """Facts shared by all rows."""
            except ConfigError as error:
                raise ConfigError(f"{error}; {_REMEDY}") from error
            if schema != schema_of(self.facts):
                raise ConfigError(
                    f"{path} is not a table of features: its columns differ; move it elsewhere"
                )

    def listed(self) -> list[Listed]:
        """Return its rows in order; reads small columns only.

        Raises:
            ConfigError: the table is damaged, or cannot be read.
        """
        listed = []
        for group in range(self._metadata.num_row_groups):
            rows = self.columns(group, _LISTED).to_pylist()
            with self._table_errors():
                listed += [self._listed(row, group, place) for place, row in enumerate(rows)]
        return listed

    def columns(self, group: int, names: Sequence[str] | None = None) -> Any:
        """Return the columns `names` of a row group, by default all (about 10 MB), as a pyarrow
        table.

        Raises:
            ConfigError: the table is damaged, or cannot be read.
        """
        import pyarrow.parquet

        with (
            self._table_errors(),
            pyarrow.parquet.ParquetFile(
                self.path, metadata=self._metadata, page_checksum_verification=True
            ) as file,
        ):
            return file.read_row_group(group, columns=names, use_threads=False)

    def row(self, columns: Any, place: int) -> ChunkResult:
        """Return the row at `place` of a row group read with all columns.

        Raises:
            ConfigError: the table is damaged.
        """
        with self._table_errors():
            return row_of(columns, place, self.facts)

    def _listed(self, row: dict[str, Any], group: int, place: int) -> Listed:
        lost = starmap(Lost, zip(row["lost_index"], row["lost_cause"], strict=True))
        concealed = compress(row["index"], row["is_concealed"])
        return Listed(
            chunk_id=row["chunk_id"],
            video=row["video"],
            path=row["path"],
            status=row["status"],
            first=next(iter(row["index"]), -1),
            outcome=Outcome(came=len(row["index"]), lost=tuple(lost), concealed=tuple(concealed)),
            table=self,
            group=group,
            place=place,
        )

    @contextmanager
    def _table_errors(self) -> Iterator[None]:
        """Turn errors of pyarrow into a ConfigError."""
        import pyarrow

        try:
            yield
        except (pyarrow.ArrowException, ValueError, KeyError, TypeError, OSError) as error:
            if isinstance(error, ConfigError):
                raise
            if isinstance(error, OSError) and error.errno is not None:
                reason = os.strerror(error.errno).lower()
                raise ConfigError(f"cannot read {self.path}: {reason}") from error
            reason = " ".join(str(error).split()).rstrip(".")
            raise ConfigError(f"{self.path} is damaged: {reason}; {_REMEDY}") from error
