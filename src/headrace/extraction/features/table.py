"""Tables of features: Parquet files with a row for each chunk, each there whole or not at all."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from headrace.extraction.features.table_columns import FEATURES, TEXTS, columns_of, schema_of
from headrace.extraction.features.table_facts import TableFacts
from headrace.extraction.features.table_output import TableOutput
from headrace.extraction.features.table_row import FeatureRow

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
    left = iter(rows)
    for first in left:
        with _TableWriter(folder / f"features-{number:05d}.parquet", facts) as writer:
            writer.write(first)
            while writer.num_bytes < most_bytes and (row := next(left, None)) is not None:
                writer.write(row)
            written = writer.close()
        yield written
        number += 1


def write_features(path: Path, rows: Iterable[FeatureRow], facts: TableFacts) -> Written:
    """Write rows as one table: see `write_tables`.

    Raises:
        ConfigError: it cannot be written, or is there already; nothing is left of it.
    """
    with _TableWriter(path, facts) as writer:
        for row in rows:
            writer.write(row)
        return writer.close()


class _TableWriter:
    """Appends rows to a table, some at a time."""

    def __init__(self, path: Path, facts: TableFacts) -> None:
        self._output = TableOutput(
            path, schema_of(facts), use_dictionary=list(TEXTS), use_byte_stream_split=[FEATURES]
        )
        self._facts = facts
        self._rows: list[FeatureRow] = []
        self._waiting_bytes = 0
        self._chunk_ids: list[str] = []

    @property
    def num_bytes(self) -> int:
        """Bytes that are written, without the rows that wait to be."""
        return self._output.num_bytes

    def write(self, row: FeatureRow) -> None:
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
