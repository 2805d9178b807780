"""Memory source: a video given as bytes or as an open file object."""

import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from headrace.cached_property import cached_property
from headrace.errors import ConfigError, OpenError
from headrace.video.source import FileStat, Source

VideoContent = bytes | bytearray | memoryview | BinaryIO
"""The bytes of a video file, or a seekable file object open for reading."""
Video: TypeAlias = Source | str | os.PathLike[str] | VideoContent
"""A video as a path, as the bytes of its file, or as a file object open for reading."""


@dataclass(frozen=True)
class MemorySource(Source):
    """A video without a path; its index is not stored. Not picklable.

    A file object is read at any offset, so nothing else may seek in it meanwhile. It belongs to one
    process, is never closed here, and must not change while it is read.
    """

    content: VideoContent = field(kw_only=True, compare=False, repr=False)
    """The bytes or the file object."""

    @classmethod
    def from_content(cls, content: VideoContent) -> "MemorySource":
        """Return the source of bytes, without a copy, or of a file object.

        Raises:
            OpenError: the file object is not binary, cannot seek, or is closed.
        """
        if isinstance(content, bytearray | memoryview):
            content = bytes(content)  # a copy: the buffer may change
        if isinstance(content, bytes):
            return cls(Path(f"<{len(content):,} bytes in memory>"), content=content)
        name = getattr(content, "name", None)
        source = cls(Path(name if isinstance(name, str) else "<file object>"), content=content)
        if not isinstance(source._call(lambda: content.read(0)), bytes):
            raise OpenError(
                f"cannot open {source}: it does not return bytes; open the file with mode 'rb'",
                source=str(source),
            )
        source.fingerprint()
        return source

    @property
    def has_path(self) -> bool:
        """Whether it is in the file system: False."""
        return False

    def fingerprint(self) -> FileStat:
        """Return the size; the modification time is unknown.

        Raises:
            OpenError: it is empty, or the file object cannot seek.
        """
        size = self._size
        if size == 0:
            raise OpenError(
                f"cannot open {self}: it is empty (0 bytes); give the bytes of a video file",
                source=str(self),
            )
        return FileStat(size, 0)

    def open_bytes(self) -> BinaryIO:
        """Return a reader from the start with its own position; it need not be closed.

        Raises:
            ConfigError: this process was forked from the one that opened the file object.
        """
        if isinstance(self.content, bytes):
            return io.BytesIO(self.content)
        if os.getpid() != self._process_id:
            raise ConfigError(
                f"{self} was opened by another process, and file objects cannot be shared; give "
                "its path, or its bytes"
            )
        return cast(BinaryIO, _PositionedReader(cast(BinaryIO, self.content), self._size))

    def for_ffmpeg(self) -> BinaryIO:
        """Return the input for FFmpeg."""
        return self.open_bytes()

    @cached_property
    def _size(self) -> int:
        content = self.content
        if isinstance(content, bytes):
            return len(content)
        return int(self._call(lambda: cast(BinaryIO, content).seek(0, os.SEEK_END)))

    @cached_property
    def _process_id(self) -> int:
        return os.getpid()

    def __post_init__(self) -> None:
        assert self._process_id  # cached before a fork

    def _call(self, operation: Any) -> Any:
        """Return the result of an operation on the file object.

        Raises:
            OpenError: the operation fails.
        """
        try:
            return operation()
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


class _PositionedReader(io.RawIOBase):
    """A reader with its own position in a file object; closing it leaves the file open."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, count: int = -1) -> bytes:
        """Return at most `count` bytes, even if the file returns more: FFmpeg's buffer is full."""
        count = self._size - self._position if count < 0 else count
        self._file.seek(self._position)
        data = bytes(self._file.read(count))[:count]
        self._position += len(data)
        return data


def source_of(video: Video) -> Source:
    """Return the source of a path, of bytes or of a file object.

    Raises:
        ConfigError: the video has another type.
        OpenError: the file object cannot be read.
    """
    if isinstance(video, bytes | bytearray | memoryview) or hasattr(video, "read"):
        return MemorySource.from_content(video)  # type: ignore[arg-type]
    if not isinstance(video, Source | str | os.PathLike):
        raise ConfigError(
            "a video must be a path, bytes or a file object, got "
            f"{type(video).__name__}; for many videos use a loader, or open each"
        )
    return Source.of(video)
