"""Files of a spill store: append-only segments of payloads, each with an index of its records.

    headrace-spill-1.json      the budget; the version of the format is in the name
    lock                       held by a process that writes or removes; counts these turns
    NNNNNNNNNNNNNNNN.frames    payloads, one after another
    NNNNNNNNNNNNNNNN.index     one record of 40 bytes for each payload

A record is written after its payload. An erased record is all zeros. Files with other names are
ignored.
"""

import errno
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.atomic_file import write_bytes_whole
from headrace.cache.sqlite_file import shared_file_system
from headrace.errors import ConfigError, file_errors
from headrace.runtime.posix import check_posix

VERSION: Final = 1
"""Version of the format of the files."""
MAX_PAYLOAD_BYTES: Final = 256 << 20
"""Max bytes of one frame: 8K RGB of 16 bits, unpacked, has 199 MB."""
MAX_RECORDS: Final = 1 << 22
"""Max records of a segment; further records of an index are not read."""
RECORD: Final = np.dtype(
    [
        *(("stream", "<u8", 2), ("offset", "<u8"), ("frame", "<u4"), ("length", "<u4")),
        *(("checksum", "<u4"), ("guard", "<u4")),
    ]
)
"""Record of one payload: digest of the stream's key, offset and length in the payload file, CRC-32
of stream, frame and payload, and a checksum of the record itself."""

_MARKER: Final = re.compile(r"headrace-spill-(\d{1,9})\.json")
_FILE: Final = re.compile(r"([0-9a-f]{16})\.(frames|index)")
_FACTORS: Final = (np.arange(1, 19, 2) * 0x9E3779B1 % 2**32).astype(np.uint32)
"""Factors of the guard: odd, so that each bit of a record changes it."""


class Segment(NamedTuple):
    """Files of one segment."""

    payload_bytes: int = 0
    index_bytes: int = 0
    used_seconds: float = 0.0
    """Unix time of the last write or read; reads update it at most once a minute."""

    @property
    def size_bytes(self) -> int:
        """Bytes of both files."""
        return self.payload_bytes + self.index_bytes


class SpillFolder:
    """Folder of a spill store. Holds no open file, so that it may be forked, shared and removed."""

    def __init__(self, path: Path, *, budget: int | None, new_budget: int | None = None) -> None:
        """Open the folder, or create it.

        Args:
            path: The folder: missing, empty, or a spill store.
            budget: Max bytes of all segments, stored in the folder; None: the stored budget.
            new_budget: Budget of a new store if `budget` is None; None: the store must exist.

        Raises:
            BackendError: this system is Windows.
            ConfigError: the folder is not a spill store, has a newer format, cannot be created, or
                is on a network file system.
        """
        check_posix(f"the spill store {path}")
        self.path = path
        self.lock_path = path / "lock"
        kind = shared_file_system(path)
        if kind is not None:
            raise ConfigError(
                f"the spill store {path} is on {kind}, which other machines may write to; give a "
                "folder on a disk of this machine"
            )
        with file_errors(f"cannot use the spill store {path}", "give a folder on a local disk"):
            can_create = budget is not None or new_budget is not None
            if can_create:
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._mode = path.stat().st_mode & 0o666
            stored = self._stored_budget(must_exist=not can_create)
        self.is_marker_damaged = stored == 0
        """Whether the budget could not be read."""
        self.budget = (stored or new_budget or 0) if budget is None else budget
        """Max bytes of all segments; 0: unknown."""
        if self.budget != stored:
            with suppress(*([] if stored is None else [ConfigError, OSError])):  # read-only folder
                self._store_budget()

    def _stored_budget(self, *, must_exist: bool) -> int | None:
        """Return the budget in the marker; 0: the marker is damaged, None: the folder is empty."""
        names = [path.name for path in self.path.iterdir()]
        versions = [int(match[1]) for match in map(_MARKER.fullmatch, names) if match]
        if not versions and self._marker.exists():
            # Another process has just created the store: the list may have later files alone.
            versions = [VERSION]
        if not versions:
            if must_exist or any(not name.startswith(".") for name in names):
                raise ConfigError(
                    f"{self.path} is not a spill store, and not empty; give a new or empty folder"
                    if names
                    else f"{self.path} is not a spill store: it is empty"
                )
            return None
        if max(versions) > VERSION:
            raise ConfigError(
                f"the spill store {self.path} has format {max(versions)}, this headrace reads "
                f"{VERSION}; update headrace, or give another folder"
            )
        with self._marker.open("rb") as file:
            try:
                return max(0, int(json.loads(file.read(4096))["budget"]))
            except (ValueError, TypeError, KeyError, RecursionError):
                return 0

    @property
    def _marker(self) -> Path:
        return self.path / f"headrace-spill-{VERSION}.json"

    def _store_budget(self) -> None:
        write_bytes_whole(self._marker, json.dumps({"budget": self.budget}).encode())
        self.lock_path.touch()
        for path in (self._marker, self.lock_path):
            path.chmod(self._mode)

    def segments(self) -> dict[int, Segment]:
        """Return all segments by number, ascending. Cost: one stat per file.

        Raises:
            OSError: the folder was removed, or cannot be read.
        """
        segments: dict[int, Segment] = {}
        with os.scandir(self.path) as entries:
            for entry in entries:
                match = _FILE.fullmatch(entry.name)
                with suppress(FileNotFoundError):  # removed meanwhile
                    if match and entry.is_file(follow_symlinks=False):
                        stat, number = entry.stat(follow_symlinks=False), int(match[1], 16)
                        values: dict[str, Any] = {"index_bytes": stat.st_size}
                        if match[2] == "frames":
                            values = {"payload_bytes": stat.st_size, "used_seconds": stat.st_mtime}
                        segments[number] = segments.get(number, Segment())._replace(**values)
        return dict(sorted(segments.items()))

    def records(self, number: int, segment: Segment, start: int) -> NDArray[np.void]:
        """Return the records of a segment from `start` on; damaged ones have a length of 2**32-1.

        Raises:
            OSError: the index cannot be read.
        """
        stop = min(segment.index_bytes // RECORD.itemsize, MAX_RECORDS)
        size = max(0, stop - start) * RECORD.itemsize
        content = self._pread(self._path(number, "index"), size, start * RECORD.itemsize)
        # In this order: payloads are written before their records.
        payload_bytes = os.stat(self._path(number, "frames")).st_size  # noqa: PTH116
        complete = len(content) - len(content) % RECORD.itemsize
        records = np.frombuffer(bytearray(content[:complete]), RECORD)
        offset, length = records["offset"], records["length"]
        is_cut = (offset > payload_bytes) | (length > payload_bytes - offset)
        is_damaged = is_cut | (length > MAX_PAYLOAD_BYTES) | (records["guard"] != _guards(records))
        length[is_damaged] = DAMAGED
        return records

    def read(self, number: int, offset: int, length: int) -> bytes:
        """Return the bytes of a payload; fewer if the file was truncated.

        Raises:
            FileNotFoundError: the segment was removed.
            OSError: it cannot be read.
        """
        return self._pread(self._path(number, "frames"), length, offset)

    def next_turn(self) -> int:
        """Start to write or remove, as holder of the lock; return the number of the turn.

        If it follows the caller's last turn, no other process has changed the folder since.

        Raises:
            OSError: the lock cannot be written.
        """
        with _opened(str(self.lock_path), os.O_RDWR) as file:
            turn = int.from_bytes(os.pread(file, 4, 0), "little") + 1
            os.pwrite(file, turn.to_bytes(8, "little"), 0)
        return turn

    def append(
        self, number: int, stream: bytes, frames: Mapping[int, bytes], now: float
    ) -> tuple[int, NDArray[np.void], Segment]:
        """Append payloads of a stream to a segment, or create it, as holder of the lock.

        Returns:
            Number of the first record, the records, and the new state of the segment.

        Raises:
            OSError: they cannot be written; the segment is unchanged.
        """
        payloads = list(frames.values())
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with (
            _opened(self._path(number, "frames"), flags) as payload_file,
            _opened(self._path(number, "index"), flags) as index_file,
        ):
            files = (payload_file, index_file)
            starts = [os.fstat(file).st_size for file in files]
            for file, start in zip(files, starts, strict=True):
                if start == 0:
                    os.fchmod(file, self._mode)
            torn = starts[1] % RECORD.itemsize  # a process was killed while it wrote a record
            if torn:
                starts[1] -= torn
                os.ftruncate(files[1], starts[1])
            lengths = [len(payload) for payload in payloads]
            records = np.zeros(len(frames), RECORD)
            records["stream"] = np.frombuffer(stream, "<u8")
            records["offset"] = starts[0] + np.cumsum([0, *lengths[:-1]])
            records["frame"], records["length"] = list(frames), lengths
            records["checksum"] = [checksum(stream, *item) for item in frames.items()]
            records["guard"] = _guards(records)
            try:
                _write(files[0], payloads)
                _write(files[1], [records.tobytes()])
            except OSError:
                for file, start in zip(files[::-1], starts[::-1], strict=True):
                    os.ftruncate(file, start)
                raise
            os.utime(payload_file, (now, now))
        segment = Segment(starts[0] + sum(lengths), starts[1] + records.nbytes, now)
        return starts[1] // RECORD.itemsize, records, segment

    def erase(self, number: int, record: int) -> None:
        """Overwrite a record with zeros, so that no process finds it again.

        Raises:
            OSError: the index cannot be written.
        """
        with _opened(self._path(number, "index"), os.O_WRONLY) as file:
            os.pwrite(file, bytes(RECORD.itemsize), record * RECORD.itemsize)

    def note_use(self, number: int, now: float) -> None:
        """Record the use of a segment; failures are ignored, for example in a read-only folder."""
        with suppress(OSError):
            os.utime(self._path(number, "frames"), (now, now))

    def remove(self, number: int) -> None:
        """Remove a segment, the index first.

        Raises:
            OSError: it cannot be removed.
        """
        for kind in ("index", "frames"):
            with suppress(FileNotFoundError):
                os.unlink(self._path(number, kind))  # noqa: PTH108

    def _path(self, number: int, kind: str) -> str:
        return f"{self.path}/{number:016x}.{kind}"

    def _pread(self, path: str, size: int, offset: int) -> bytes:
        with _opened(path, os.O_RDONLY) as file:
            return os.pread(file, size, offset)


DAMAGED: Final = 2**32 - 1
"""Length in a damaged record."""


def checksum(stream: bytes, frame: int, payload: bytes) -> int:
    """Return the CRC-32 of a payload, its stream and its frame; 33 µs for 80 kB."""
    return zlib.crc32(payload, zlib.crc32(stream + int(frame).to_bytes(4, "little")))


@contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    file = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def _guards(records: NDArray[np.void]) -> NDArray[np.uint32]:
    words = records.view("<u4").reshape(len(records), RECORD.itemsize // 4)[:, :-1]
    guards: NDArray[np.uint32] = (words * _FACTORS).sum(axis=1, dtype=np.uint32)
    return guards


def _write(file: int, parts: list[bytes]) -> None:
    if os.writev(file, parts) < sum(map(len, parts)):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
