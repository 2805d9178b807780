"""Tables of features in Parquet, written and read."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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


def write_tables(
    folder: Path, rows: Iterable[ChunkResult], facts: TableFacts, *, most_bytes: int = MOST_BYTES
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
    left = iter(rows)
    for first in left:
        with _TableWriter(folder / f"features-{number:05d}.parquet", facts) as writer:
            writer.write(first)
            while writer.num_bytes < most_bytes and (row := next(left, None)) is not None:
                writer.write(row)
            written = writer.close()
        yield written
        number += 1


class _TableWriter:
    """Appends rows to a table, some at a time."""

    def __init__(self, path: Path, facts: TableFacts) -> None:
        self._output = TableOutput(
            path, schema_of(facts), use_dictionary=list(TEXTS), use_byte_stream_split=[FEATURES]
        )
        self._facts = facts
        self._rows: list[ChunkResult] = []
        self._waiting_bytes = 0
        self._chunk_ids: list[str] = []

    @property
    def num_bytes(self) -> int:
        """Bytes that are written, without the rows that wait to be."""
        return self._output.num_bytes

    def write(self, row: ChunkResult) -> None:
        self._rows.append(row)
        self._chunk_ids.append(row.chunk_id)
        self._waiting_bytes += row.samples.features.nbytes
        if self._waiting_bytes >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self._write_group()

    def close(self) -> Written:
        if self._rows:
            self._write_group()
        self._output.close()
        return Written(self._output.path, tuple(self._chunk_ids))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._output.__exit__(*error)

    def _write_group(self) -> None:
        self._output.write(columns_of(self._rows, self._facts))
        self._rows, self._waiting_bytes = [], 0


def _next_number(folder: Path) -> int:
    """Behind all tables that are there, those that were set aside too."""
    found = (path.name.split("-")[1].split(".")[0] for path in folder.glob(f"{PATTERN}*"))
    return max((int(number) for number in found if number.isdecimal()), default=-1) + 1


_LISTED: Final = ("chunk_id", "video", "path", "status", "n")


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One row, as a table lists it."""

    chunk_id: str
    video: str
    """What its video is called in the folder."""
    path: str
    """Where the video lay."""
    status: Literal["done", "failed"]
    n: int
    """Samples that have a feature."""
    first: int
    """Index of the first of them; -1 where there is none."""
    group: int
    """Rows are read a group at a time: the place of its group in the table."""
    place: int
    """Of the row in its group."""


_CURE: Final = "delete it and run the same extraction again, which makes anew what was in it"


class TableFile:
    """A table whose footer is whole. Holds no open file; for one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Read the footer, and nothing else.

        Raises:
            ConfigError: it is no table of features, is damaged, or cannot be read.
        """
        import pyarrow.parquet

        self.path = path
        with self._telling():
            with pyarrow.parquet.ParquetFile(path) as file:
                self._metadata: Any = file.metadata
                schema = file.schema_arrow
            found = (schema.metadata or {}).get(METADATA)
            if found is None:
                raise ConfigError(f"{path} is no table of features; move it elsewhere")
            self.facts = self._facts(found.decode())
            """What all rows have in common."""
            if schema != schema_of(self.facts):
                raise ConfigError(
                    f"{path} is no table of features, as its columns are others; move it elsewhere"
                )

    def listed(self) -> list[Listed]:
        """Return what it holds, in order; reads six small columns.

        Raises:
            ConfigError: it is damaged, or cannot be read.
        """
        found = []
        for group in range(self._metadata.num_row_groups):
            columns = self.columns(group, (*_LISTED, "index"))
            first = [row[0] if row else -1 for row in columns.column("index").to_pylist()]
            values = [columns.column(name).to_pylist() for name in _LISTED]
            found += [
                Listed(
                    **dict(zip(_LISTED, row[1:], strict=True)),
                    first=row[0],
                    group=group,
                    place=place,
                )
                for place, row in enumerate(zip(first, *values, strict=True))
            ]
        return found

    def outcomes(self) -> Iterator[tuple[str, Outcome]]:
        """Yield name of each chunk that is done, and what came of it; reads no feature.

        Raises:
            ConfigError: it is damaged, or cannot be read.
        """
        names = ("chunk_id", "status", "n", "index", "is_concealed", "lost_index", "lost_cause")
        for group in range(self._metadata.num_row_groups):
            for row in self.columns(group, names).to_pylist():
                if row["status"] == "done":
                    concealed = zip(row["index"], row["is_concealed"], strict=True)
                    lost = zip(row["lost_index"], row["lost_cause"], strict=True)
                    yield (
                        row["chunk_id"],
                        Outcome(
                            came=row["n"],
                            lost=tuple(Lost(index=index, cause=cause) for index, cause in lost),
                            concealed=tuple(index for index, is_so in concealed if is_so),
                        ),
                    )

    def columns(self, group: int, names: Sequence[str] | None = None) -> Any:
        """Return columns of a group of rows as a table of pyarrow, all of them or those named;
        all of a group are some 10 MB.

        Raises:
            ConfigError: it is damaged, or cannot be read.
        """
        import pyarrow.parquet

        with (
            self._telling(),
            pyarrow.parquet.ParquetFile(
                self.path, metadata=self._metadata, page_checksum_verification=True
            ) as file,
        ):
            return file.read_row_group(group, columns=names, use_threads=False)

    def row(self, columns: Any, place: int) -> ChunkResult:
        """Return the row at `place` of a group whose columns were read, all of them.

        Raises:
            ConfigError: it is damaged.
        """
        with self._telling():
            return row_of(columns, place, self.facts)

    def _facts(self, text: str) -> TableFacts:
        try:
            return TableFacts.parse(text, self.path)
        except ConfigError as error:
            raise ConfigError(f"{error}; {_CURE}") from error

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Whatever pyarrow raises of what it reads becomes an error of ours."""
        import pyarrow

        try:
            yield
        except (pyarrow.ArrowException, ValueError, KeyError, TypeError, OSError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(_words(self.path, error)) from error


def _words(path: Path, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return f"cannot read {path}: {os.strerror(error.errno).lower()}"
    what = " ".join(str(error).split()).rstrip(".")
    return f"{path} is damaged: {what}; {_CURE}"
