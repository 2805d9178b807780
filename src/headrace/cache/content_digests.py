"""Digests of whole files; each version of a file is read once."""

import os
import sys
from pathlib import Path
from typing import Final, Self

import platformdirs

from headrace.cache.sqlite_file import MemoTable, Schema
from headrace.errors import OpenError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.video.content_digest import content_digest
from headrace.video.source import Source

FILE: Final = "contents-2.sqlite"
"""File name in the user's cache folder; changes with the form of the digests."""
SETTLED_SECONDS: Final = 2.0
"""Seconds after a change in which a file may change again with the same mtime."""

_LAYOUT: Final = Schema(
    application=0x48524344,
    version=1,
    tables="""
CREATE TABLE contents (path BLOB PRIMARY KEY, version TEXT NOT NULL, digest TEXT NOT NULL)
""",
)
_FIND: Final = "SELECT digest FROM contents WHERE path = ? AND version = ?"
_KEEP: Final = "INSERT OR REPLACE INTO contents VALUES (?, ?, ?)"


class ContentDigests:
    """Digests of whole files, cached by path, size and times. For one thread at a time.

        with ContentDigests() as contents:
            contents.of(source)  # "sha256:…"

    Reads each version of a file once, at the disk's speed, or about 2 GB a second from the page
    cache. If the table cannot be written, every file is read again.
    """

    def __init__(self, folder: Path | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Set the folder of the table, by default the user's cache folder."""
        self.path = (folder or Path(platformdirs.user_cache_dir("headrace"))) / FILE
        """The table."""
        self._table = MemoTable(self.path, _LAYOUT)
        self.read = 0
        """Number of files read."""
        self._clock = clock
        self._digests: dict[tuple[bytes, str], str] = {}

    def of(self, source: Source) -> str:
        """Return the digest of a file.

        Raises:
            OpenError: the file is missing, empty, not a regular file, unreadable, or changes
                meanwhile.
        """
        source.fingerprint()
        path = os.fsencode(source.path.absolute())
        version, is_settled = self._version(source)
        digest = self._digests.get((path, version))
        if digest is None and (row := self._table.find(_FIND, (path, version))):
            digest = str(row[0])
        if digest is None:
            digest = content_digest(source.path, whole_bytes=sys.maxsize)
            self.read += 1
            if digest is None:
                raise OpenError(f"cannot read {source} to its end", source=str(source))
            if self._version(source)[0] != version:
                raise OpenError(
                    f"{source} changed while it was read; try again when it is complete",
                    source=str(source),
                )
            if is_settled:
                self._table.keep(_KEEP, (path, version, digest))
        if is_settled:
            self._digests[path, version] = digest
        return digest

    def close(self) -> None:
        """Close the table."""
        self._table.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _version(self, source: Source) -> tuple[str, bool]:
        """Return the version of the file as a text, and whether its last change is settled: see
        SETTLED_SECONDS."""
        try:
            stat = source.path.stat()
        except OSError as error:
            raise OpenError(f"{source} no longer exists", source=str(source)) from error
        # ctime, which programs cannot set, detects a file replaced by a copy with the same mtime.
        values = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
        age = self._clock.wall_seconds() - max(stat.st_mtime, stat.st_ctime)
        return " ".join(map(str, values)), age >= SETTLED_SECONDS
