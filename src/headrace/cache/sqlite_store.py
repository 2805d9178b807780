"""Store in one SQLite file: bounded, with LRU eviction, for many processes."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from headrace.cache.sqlite_file import DamagedError, Schema, SqliteFile
from headrace.cache.store import EntryInfo, StoreState
from headrace.runtime.clock import SYSTEM_CLOCK, Clock

BOUND_BYTES: Final = 10 << 30
"""Default limit of all entries, in bytes: about 45 days of video at one frame a second and 1,280
float16 per frame (0.2 GB a day)."""
MAX_ENTRY_BYTES: Final = 256 << 20
"""Max bytes of an entry. A chunk is a few hundred frames; SQLite's own limit is 1 GB."""
BUSY_SECONDS: Final = 5.0
"""Seconds to wait for another writing process; a write takes milliseconds."""
TOUCH_SECONDS: Final = 60.0
"""Seconds between writes of the times of use, so that reads rarely write."""

_LAYOUT: Final = Schema(
    application=0x48524343,
    version=1,
    # Bodies have their own table, so that an update of the time of use does not rewrite them.
    tables="""
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    used INTEGER NOT NULL,
    bytes INTEGER NOT NULL
);

CREATE INDEX entries_by_use ON entries (used, id, bytes);

CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL);

CREATE TABLE totals (entries INTEGER, bytes INTEGER, hits INTEGER, misses INTEGER, bound INTEGER);

INSERT INTO totals VALUES (0, 0, 0, 0, NULL);

CREATE TRIGGER added AFTER INSERT ON entries BEGIN
    UPDATE totals SET entries = entries + 1, bytes = bytes + new.bytes;
END;

CREATE TRIGGER changed AFTER UPDATE OF bytes ON entries BEGIN
    UPDATE totals SET bytes = bytes - old.bytes + new.bytes;
END;

CREATE TRIGGER removed AFTER DELETE ON entries BEGIN
    UPDATE totals SET entries = entries - 1, bytes = bytes - old.bytes;
    DELETE FROM bodies WHERE id = old.id;
END""",
)
_MAX_ROW_BYTES: Final = MAX_ENTRY_BYTES + 65_536
_QUERY_DIGESTS: Final = 500
"""Digests per query: SQLite allows at least 999 values."""
_EVICTED: Final = 64
"""Entries evicted at once."""
_FILL_AFTER_EVICTION: Final = 0.9
"""Share of the bound left after an eviction; at 1, every write would evict."""
_ALL: Final = (
    "SELECT digest, bytes, used FROM entries WHERE typeof(digest) = 'blob' "
    "AND typeof(bytes) = 'integer' AND typeof(used) = 'integer'"
)
"""All entries of valid types: SQLite columns hold values of any type."""
_MAX_READS: Final = 4096
"""Max reads between writes of the times of use."""


class SqliteStore:
    """A `Store` in a file. Reads update the times of use, once a minute."""

    def __init__(
        self,
        path: Path,
        *,
        bound_bytes: int | None = None,
        is_own_folder: bool = False,
        busy_seconds: float = BUSY_SECONDS,
        sets_aside: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Set the file; open nothing yet.

        Args:
            path: File of the store; SQLite keeps two others beside it while it is open.
            bound_bytes: Max bytes of all entries, stored in the file; None: the stored value, else
                `BOUND_BYTES`. The file is a few percent larger.
            is_own_folder: Whether only headrace keeps files in this folder.
            busy_seconds: Seconds to wait for another writing process.
            sets_aside: Whether a damaged file is renamed and replaced by a new one.
            clock: Clock for the times of use.
        """
        self.where = str(path)
        self.max_entry_bytes = min(MAX_ENTRY_BYTES, (bound_bytes or BOUND_BYTES) // 2)
        self._file = SqliteFile(
            path,
            _LAYOUT,
            is_own_folder=is_own_folder,
            busy_seconds=busy_seconds,
            sets_aside=sets_aside,
        )
        self._bound = bound_bytes
        self._clock = clock
        self._read: set[bytes] = set()
        self._hits = self._misses = 0
        self._noted_ns = clock.now_ns()

    def open(self) -> Sequence[str]:
        """Open or create the file: see `Store.open`."""
        self._open()
        return ()

    def get(self, digests: Sequence[str], *, is_use: bool = True) -> dict[str, bytes]:
        """Return the existing entries: see `Store.get`."""
        file = self._open()
        entries: dict[str, bytes] = {}
        with file.errors_as("read"):
            for start in range(0, len(digests), _QUERY_DIGESTS):
                batch = [
                    bytes.fromhex(digest) for digest in digests[start : start + _QUERY_DIGESTS]
                ]
                rows = file.sqlite.execute(
                    "SELECT digest, body FROM entries JOIN bodies USING (id) "
                    f"WHERE digest IN ({','.join('?' * len(batch))})",
                    batch,
                )
                entries.update((digest.hex(), content) for digest, content in rows)
        if not is_use:
            return entries
        self._read.update(map(bytes.fromhex, entries))
        self._hits += len(entries)
        self._misses += len(digests) - len(entries)
        is_due = self._clock.now_ns() - self._noted_ns >= TOUCH_SECONDS * 1e9
        if is_due or len(self._read) >= _MAX_READS:
            with file.errors_as("written"):
                self._note_use()
        return entries

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Write all entries or none; evict the least recently used above the bound."""
        file, used = self._open(), self._seconds()
        with file.errors_as("written"), file.transaction() as sqlite:
            for digest, content in entries.items():
                (row,) = sqlite.execute(
                    "INSERT INTO entries (digest, used, bytes) VALUES (?, ?, ?) "
                    "ON CONFLICT (digest) DO UPDATE "
                    "SET used = excluded.used, bytes = excluded.bytes RETURNING id",
                    (bytes.fromhex(digest), used, len(content)),
                ).fetchone()
                sqlite.execute("INSERT OR REPLACE INTO bodies VALUES (?, ?)", (row, content))
            self._write_use(sqlite)
            self._evict(sqlite)

    def remove(self, digests: Sequence[str]) -> None:
        """Remove entries, and free their space on disk."""
        file = self._open()
        with file.errors_as("written"):
            with file.transaction() as sqlite:
                rows = [(bytes.fromhex(digest),) for digest in digests]
                sqlite.executemany("DELETE FROM entries WHERE digest = ?", rows)
            # A script, because each step of the statement frees only one page.
            file.sqlite.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")

    def list_entries(self) -> Iterator[EntryInfo]:
        """Yield every entry without its bytes: see `Store.list_entries`."""
        file, now = self._open(), self._seconds()
        with file.errors_as("read"):
            rows = file.sqlite.execute(_ALL).fetchall()
        for digest, size, used in rows:
            yield EntryInfo(digest.hex(), size, max(0.0, float(now - used)))

    def state(self) -> StoreState:
        """Return the current state: see `Store.state`."""
        file = self._open()
        with file.errors_as("read"):
            query = "SELECT entries, bytes, hits, misses, bound FROM totals"
            entries, size, hits, misses, bound = file.sqlite.execute(query).fetchone()
        return StoreState(
            where=self.where,
            entries=entries,
            size_bytes=size,
            bound_bytes=bound or BOUND_BYTES,
            hits=hits + self._hits,
            misses=misses + self._misses,
        )

    def close(self) -> None:
        """Write the times of use, and close the file."""
        if self._file.is_open:
            with suppress(sqlite3.Error):
                self._note_use()
            self._file.close()

    def _open(self) -> SqliteFile:
        if not self._file.is_open:
            self._file.open()
            with self._file.errors_as("opened"):
                self._file.sqlite.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_ROW_BYTES)
                self._keep_bound(self._file.sqlite)
        return self._file

    def _keep_bound(self, sqlite: sqlite3.Connection) -> None:
        query = "SELECT bound, entries, bytes, hits, misses FROM totals"
        [(bound, *counts)] = sqlite.execute(query).fetchall() or [(None, None)]
        if not all(type(count) is int for count in (bound or 0, *counts)):
            raise DamagedError("its totals are not numbers")
        if self._bound is not None and self._bound != bound:
            sqlite.execute("UPDATE totals SET bound = ?", (self._bound,))

    def _seconds(self) -> int:
        return int(self._clock.wall_seconds())

    def _note_use(self) -> None:
        """Write the times of use; after a failure, entries look less recently used."""
        self._noted_ns = self._clock.now_ns()
        if self._read or self._misses:
            with suppress(sqlite3.OperationalError), self._file.transaction() as sqlite:
                self._write_use(sqlite)
        self._read.clear()

    def _write_use(self, sqlite: sqlite3.Connection) -> None:
        used = self._seconds()
        sqlite.executemany(
            "UPDATE entries SET used = ? WHERE digest = ?",
            [(used, digest) for digest in self._read],
        )
        sqlite.execute(
            "UPDATE totals SET hits = hits + ?, misses = misses + ?", (self._hits, self._misses)
        )
        self._read.clear()
        self._hits = self._misses = 0

    def _evict(self, sqlite: sqlite3.Connection) -> None:
        size, bound = sqlite.execute("SELECT bytes, bound FROM totals").fetchone()
        bound = bound or BOUND_BYTES
        if size <= bound:
            return
        oldest = "SELECT id FROM entries ORDER BY used, id LIMIT ?"
        while size > bound * _FILL_AFTER_EVICTION:
            deleted = sqlite.execute(f"DELETE FROM entries WHERE id IN ({oldest})", (_EVICTED,))
            if not deleted.rowcount:
                return
            (size,) = sqlite.execute("SELECT bytes FROM totals").fetchone()
