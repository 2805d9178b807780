"""Video that lies in memory, or behind a file that somebody else opened, in place of a path."""

import io
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

from headrace.errors import ConfigError, OpenError
from headrace.video.source import FileStat, Source

Held = bytes | bytearray | memoryview | BinaryIO
"""The bytes of a video file, or a file that is open for reading them, and can seek."""


@dataclass(frozen=True)
class MemorySource(Source):
    """A video without a path; nothing that is known of it is kept. Stays in its process.

    A file object is read from wherever it is needed, so nobody else may move it meanwhile, and it
    is for one process; it is never closed here. It must not change while it is read.
    """

    content: Held = field(kw_only=True, compare=False, repr=False)
    """What is read."""

    @classmethod
    def holding(cls, content: Held) -> "MemorySource":
        """Return the source of bytes, which are not copied, or of a file object.

        Raises:
            OpenError: the file object is no binary one, cannot seek, or is closed.
        """
        if isinstance(content, bytearray | memoryview):
            content = bytes(content)  # They may change.
        if isinstance(content, bytes):
            return cls(Path(f"<{len(content):,} bytes in memory>"), content=content)
        name = getattr(content, "name", None)
        source = cls(Path(name if isinstance(name, str) else "<file object>"), content=content)
        if not isinstance(source._asked(lambda: content.read(0)), bytes):
            raise OpenError(
                f"cannot open {source}: it gives no bytes; open the file with mode 'rb'",
                source=str(source),
            )
        source.fingerprint()
        return source

    @property
    def has_path(self) -> bool:
        """Whether it lies in the file system, where others find it again: no."""
        return False

    def fingerprint(self) -> FileStat:
        """Return the size; a time of change is not known.

        Raises:
            OpenError: empty, or the file object cannot seek.
        """
        size = self._size
        if size == 0:
            raise OpenError(
                f"cannot open {self}: it is empty (0 bytes); give the bytes of a video file",
                source=str(self),
            )
        return FileStat(size, 0)

    def open_bytes(self) -> BinaryIO:
        """Return what reads the bytes from the start, with a place of its own; needs no close.

        Raises:
            ConfigError: this process was forked from the one that opened the file object.
        """
        if isinstance(self.content, bytes):
            return io.BytesIO(self.content)
        if os.getpid() != self._home:
            raise ConfigError(
                f"{self} was opened by another process, and file objects are for one; "
                "give its path, or its bytes"
            )
        return cast(BinaryIO, _Place(cast(BinaryIO, self.content), self._size))

    def for_ffmpeg(self) -> BinaryIO:
        """Return what FFmpeg opens."""
        return self.open_bytes()

    @cached_property
    def _size(self) -> int:
        content = self.content
        if isinstance(content, bytes):
            return len(content)
        return int(self._asked(lambda: cast(BinaryIO, content).seek(0, os.SEEK_END)))

    @cached_property
    def _home(self) -> int:
        return os.getpid()

    def __post_init__(self) -> None:
        assert self._home  # noted now, not in a process that is forked later

    def _asked(self, ask: Any) -> Any:
        """Return what a file object answers.

        Raises:
            OpenError: it does not.
        """
        try:
            return ask()
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise OpenError(
                f"cannot open {self}: {str(error).lower() or type(error).__name__}; give a file "
                "that is open for reading and can seek, or its bytes: file.read()",
                source=str(self),
            ) from error

    def __reduce__(self) -> Any:
        raise ConfigError(
            f"{self} cannot be sent to another process; write it to a file and give the path"
        )


class _Place(io.RawIOBase):
    """A file object as read from a place of its own; closing it leaves the file open."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def read(self, count: int = -1) -> bytes:
        """Return at most `count` bytes, whatever the file gives: FFmpeg has room for no more."""
        count = self._size - self._at if count < 0 else count
        self._file.seek(self._at)
        found = bytes(self._file.read(count))[:count]
        self._at += len(found)
        return found
