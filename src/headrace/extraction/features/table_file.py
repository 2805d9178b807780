"""A table of features as it is read: which chunks it holds, and their rows. Needs pyarrow."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from headrace.errors import ConfigError
from headrace.extraction.features.outcome import Outcome
from headrace.extraction.features.result import Lost
from headrace.extraction.features.table_columns import METADATA, row_of, schema_of
from headrace.extraction.features.table_facts import TableFacts
from headrace.extraction.features.table_row import FeatureRow

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

    def row(self, columns: Any, place: int) -> FeatureRow:
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


def damage_of(path: Path) -> str | None:
    """Return what is wrong with a table, in one line; None where its footer and list are whole.

    Reads six small columns. Features are checked, by checksums, when they are read.
    """
    try:
        TableFile(path).listed()
    except ConfigError as error:
        return str(error)
    return None


def _words(path: Path, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return f"cannot read {path}: {os.strerror(error.errno).lower()}"
    what = " ".join(str(error).split()).rstrip(".")
    return f"{path} is damaged: {what}; {_CURE}"
