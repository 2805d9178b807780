"""Table in the user's cache folder that memoizes slow results."""

import sqlite3
from pathlib import Path
from typing import Any, Final

from headrace.cache.sqlite_file import Schema, SqliteConnection, connect
from headrace.errors import CacheError, ConfigError

_BUSY_SECONDS: Final = 1.0


class MemoTable:
    """Rows of a SQLite file; after a failure, nothing is found and nothing is raised.

    For one thread at a time.
    """

    def __init__(self, path: Path, layout: Schema) -> None:
        """Open nothing yet."""
        self.path = path
        """The file."""
        self._layout = layout
        self._connected: SqliteConnection | None = None
        self._is_kept = True

    def find(self, query: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the first row of a SELECT; None: no row."""
        return self._run("read", query, values)

    def keep(self, statement: str, values: tuple[Any, ...]) -> None:
        """Run an INSERT; ignore failures."""
        self._run("written", statement, values)

    def close(self) -> None:
        """Close the file; it is opened again when needed."""
        connected, self._connected = self._connected, None
        if connected is not None:
            connected.close()

    def _run(self, verb: str, sql: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the first row of a statement; None: no row, or a failure."""
        table = self._table()
        if table is None:
            return None
        try:
            with table.errors_as(verb):
                row: tuple[Any, ...] | None = table.sqlite.execute(sql, values).fetchone()
        except CacheError:
            return None
        return row

    def _table(self) -> SqliteConnection | None:
        """Return the table; None after a failure to open it, which is not tried again."""
        if self._is_kept and (self._connected is None or not self._connected.is_open):
            try:
                self._connected = connect(
                    self.path, self._layout, is_own_place=True, busy_seconds=_BUSY_SECONDS
                )
            except (CacheError, ConfigError, sqlite3.Error):
                self._is_kept = False
        return self._connected if self._is_kept else None
