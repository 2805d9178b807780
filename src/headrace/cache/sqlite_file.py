"""SQLite files of headrace: create, open, identify, and rename if damaged; memoization in them."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from headrace.errors import CacheError, ConfigError, reason_of

_MAGIC: Final = b"SQLite format 3\0"
_APPLICATION: Final = slice(68, 72)
"""Bytes of the application id in the header of a SQLite file: sqlite.org/fileformat.html."""
_START_BYTES: Final = 65_536
"""Size of the largest first page: it starts with a header of 100 bytes, and ends with the SQL of
the tables."""
_DAMAGE: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_PRIMARY_CODE: Final = 0xFF
_MAX_LAYOUTS: Final = 100
"""Exclusive limit of layout numbers: a larger one in a header is damage."""
_SHARED: Final = ("nfs", "cifs", "smb", "afs", "9p", "fuse.sshfs", "fuse.s3fs", "ceph", "lustre")
"""Name prefixes of file systems that other machines may write to."""


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Layout of a file."""

    application: int
    """Application id in the header of the file."""
    version: int
    """Version of the tables."""
    tables: str
    """SQL that creates them."""


class SqliteFile:
    """SQLite file of headrace, which can be opened and closed any number of times."""

    def __init__(
        self,
        path: Path,
        layout: Schema,
        *,
        is_own_folder: bool,
        busy_seconds: float,
        sets_aside: bool = True,
    ) -> None:
        """Open nothing yet.

        Args:
            path: The file.
            layout: Layout of the file.
            is_own_folder: Whether only headrace keeps files in this folder; an unreadable file is
                then a damaged file of headrace.
            busy_seconds: Seconds to wait for another writing process.
            sets_aside: Whether a damaged file is renamed and replaced by a new one.
        """
        self._path = path
        self._sets_aside = sets_aside
        self._is_own_place = is_own_folder
        self._layout = layout
        self._busy_seconds = busy_seconds
        self._sqlite: sqlite3.Connection | None = None
        self._inode = 0

    def open(self) -> None:
        """Open the file, or create it and its folder with access for its owner only.

        Raises:
            ConfigError: the file belongs to another program, or has another layout.
            CacheError: the file cannot be opened or created, or is damaged.
        """
        kind = shared_file_system(self._path)
        if kind is not None:
            raise CacheError(
                f"{self._path} is on {kind}, where writes of several machines may damage it; give "
                "a path on a disk of this machine, or a Redis server"
            )
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            reason = reason_of(error)
            if isinstance(error, FileExistsError):
                reason = f"{self._path.parent} is a file, not a folder"
            raise CacheError(f"{self._path} cannot be opened: {reason}") from error
        with self.errors_as("opened"):
            self._connect()

    @property
    def is_open(self) -> bool:
        """Whether the file is open; a failure closes it."""
        return self._sqlite is not None

    @property
    def sqlite(self) -> sqlite3.Connection:
        """The connection; it commits each statement, except in `transaction`."""
        if self._sqlite is None:
            raise CacheError(f"{self._path} is closed")
        return self._sqlite

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit all statements of the block or none; acquires the write lock at the start."""
        sqlite = self.sqlite
        sqlite.execute("BEGIN IMMEDIATE")
        try:
            yield sqlite
            sqlite.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite may have rolled back itself, as on a full disk
                sqlite.execute("ROLLBACK")
            raise

    @contextmanager
    def errors_as(self, what: str) -> Iterator[None]:
        """Turn errors of SQLite into a CacheError; a damaged file may be renamed."""
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            is_damaged = _is_damage(error)
            aside = self._set_aside() if is_damaged and self._sets_aside else None
            self.close()
            message = f"{self._path} cannot be {what}: {error or type(error).__name__}"
            if aside is not None:
                message = (
                    f"{self._path} was damaged; it was renamed to {aside}, and is created again"
                )
            elif is_damaged and not self._sets_aside:
                message = (
                    f"{self._path} is damaged: {error}; the next run, or headrace cache verify "
                    f"--repair, renames it to {self._aside.name} and creates a new one"
                )
            raise CacheError(message) from error

    def close(self) -> None:
        """Close the connection; never fails."""
        sqlite, self._sqlite = self._sqlite, None
        if sqlite is not None:
            with suppress(sqlite3.Error):
                sqlite.close()

    def _connect(self) -> None:
        """Connect, and create missing tables; raises errors of SQLite."""
        sqlite = sqlite3.connect(
            self._path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
        )
        self._sqlite, self._inode = sqlite, self._path.stat().st_ino
        self._check_owner(sqlite)
        if _number(sqlite, "user_version") == 0:
            # Both take effect only before the first table, and need the write lock.
            sqlite.execute("PRAGMA page_size = 16384")
            sqlite.execute("PRAGMA auto_vacuum = INCREMENTAL")
            with self.transaction():
                if _number(sqlite, "user_version") == 0:  # no other process created them meanwhile
                    for statement in self._layout.tables.split(";\n\n"):
                        sqlite.execute(statement)
                    sqlite.execute(f"PRAGMA application_id = {self._layout.application}")
                    sqlite.execute(f"PRAGMA user_version = {self._layout.version}")
        version = _number(sqlite, "user_version")
        if not 0 < version < _MAX_LAYOUTS:
            raise DamagedError(f"its header names layout {version}")
        if version != self._layout.version:
            self.close()
            raise ConfigError(
                f"the cache {self._path} has layout {version}, this headrace reads "
                f"{self._layout.version}; give another path, or delete the file"
            )
        # Readers beside one writer. If another process holds the file, its old mode still works.
        with suppress(sqlite3.OperationalError):
            sqlite.execute("PRAGMA journal_mode = WAL")
        sqlite.execute("PRAGMA synchronous = NORMAL")
        sqlite.execute("PRAGMA journal_size_limit = 67108864")

    def _check_owner(self, sqlite: sqlite3.Connection) -> None:
        """Raise ConfigError for a file of another program; leave it unchanged."""
        try:
            # In this order: another process may be creating the file.
            is_new = _number(sqlite, "schema_version") == 0
            application = _number(sqlite, "application_id")
        except sqlite3.Error as error:
            # Only a damaged file is read directly: SQLite waits for writers.
            if self._is_own_place or not _is_damage(error) or self._is_ours():
                raise
            application, is_new = 0, False
        if application == self._layout.application or is_new:
            return
        if self._is_ours():
            raise DamagedError("its header was changed")
        self.close()
        raise ConfigError(
            f"{self._path} is not a headrace cache; give the path of a new file, or a folder"
        )

    def _is_ours(self) -> bool:
        """Whether the file starts with the application id, or holds the SQL of all tables."""
        with self._path.open("rb") as file:
            start = file.read(_START_BYTES)
        application = int.from_bytes(start[_APPLICATION], "big")
        if start.startswith(_MAGIC) and application == self._layout.application:
            return True
        tables = [
            statement
            for statement in self._layout.tables.split(";\n\n")
            if "CREATE TABLE" in statement
        ]
        return all(table.strip().encode() in start for table in tables)

    def _set_aside(self) -> Path | None:
        """Rename a damaged file; None if another process did, or it fails."""
        self.close()
        try:
            if self._path.stat().st_ino != self._inode:
                return None
            for suffix in ("-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            self._path.replace(self._aside)
        except OSError:
            return None
        return self._aside

    @property
    def _aside(self) -> Path:
        return self._path.with_name(f"{self._path.name}.damaged")


_BUSY_SECONDS: Final = 1.0


class MemoTable:
    """Table in the user's cache folder that memoizes slow results. For one thread at a time.

    Failures are not raised: no row is found.
    """

    def __init__(self, path: Path, layout: Schema) -> None:
        """Open nothing yet."""
        self._file = SqliteFile(path, layout, is_own_folder=True, busy_seconds=_BUSY_SECONDS)
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


def shared_file_system(path: Path, mounts: Iterable[tuple[str, str]] | None = None) -> str | None:
    """Return the kind of file system of `path` if other machines may write to it, else None.

    Args:
        path: File to open.
        mounts: Folder and kind of every file system; None: those of this machine.
    """
    if mounts is None:
        partitions = psutil.disk_partitions(all=True)
        mounts = [(partition.mountpoint, partition.fstype) for partition in partitions]
    absolute = path.absolute()
    holding = [(folder, kind) for folder, kind in mounts if absolute.is_relative_to(folder)]
    _, kind = max(holding, key=lambda mount: len(mount[0]), default=("", ""))
    return kind if kind.startswith(_SHARED) else None


class DamagedError(sqlite3.DatabaseError):
    """Damage that SQLite does not detect."""


def _is_damage(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", 0)
    # UnicodeDecodeError: a message that quotes a damaged table.
    return isinstance(error, DamagedError | UnicodeDecodeError) or code & _PRIMARY_CODE in _DAMAGE


def _number(sqlite: sqlite3.Connection, pragma: str) -> int:
    return int(sqlite.execute(f"PRAGMA {pragma}").fetchone()[0])
