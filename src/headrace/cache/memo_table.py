"""Table in the user's cache folder that memoizes slow results."""

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from headrace.cache.sqlite_file import Schema, SqliteFile
from headrace.errors import CacheError, ConfigError

_BUSY_SECONDS: Final = 1.0


class MemoTable:
    """Rows of a SQLite file. Failures are not raised: no row is found.

    For one thread at a time.
    """

    def __init__(self, path: Path, layout: Schema) -> None:
        """Open nothing yet."""
        self._file = SqliteFile(path, layout, is_own_place=True, busy_seconds=_BUSY_SECONDS)
        self._is_usable = True

    def find(self, query: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the first row of a SELECT; None: no row."""
        return self._run("read", query, values)

    def keep(self, statement: str, values: tuple[Any, ...]) -> None:
        """Run an INSERT; ignore failures."""
        self._run("written", statement, values)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._file.close()

    def _run(self, verb: str, sql: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the first row of a statement; None: no row, or a failure.

        A file that cannot be opened is not tried again.
        """
        if self._is_usable and not self._file.is_open:
            try:
                self._file.open()
            except (CacheError, ConfigError, sqlite3.Error):
                self._is_usable = False
        row: tuple[Any, ...] | None = None
        if self._is_usable:
            with suppress(CacheError), self._file.errors_as(verb):
                row = self._file.sqlite.execute(sql, values).fetchone()
        return row
