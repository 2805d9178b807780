"""Where a video comes from."""

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from headrace.errors import OpenError
from headrace.sizes import check_integers

_CONTENT_SAMPLE_BYTES = 1 << 16


@dataclass(frozen=True)
class Fingerprint:
    """What tells one version of a file from the next without reading it."""

    size: int
    """Bytes."""
    mtime_ns: int
    """Time of the last change, nanoseconds since the epoch."""


@dataclass(frozen=True)
class Source:
    """One video file and the stream of it that is meant."""

    path: Path
    """A string is one, too, whatever characters it holds."""
    stream: int | None = None
    """Number of the video stream among all streams; None takes the one FFmpeg calls best."""

    @classmethod
    def of(cls, source: "Source | str | os.PathLike[str]") -> "Source":
        """Return `source` as a Source; a string is a path, whatever characters it holds."""
        return source if isinstance(source, Source) else cls(Path(source))

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        check_integers(0, stream=self.stream)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def has_path(self) -> bool:
        """Whether it lies in the file system, where others find it again."""
        return True

    @property
    def key(self) -> bytes:
        """What its index is known by: where it lies, and which stream is meant."""
        return os.fsencode(self.path.absolute()) + f"#{self.stream}".encode()

    @property
    def demuxer(self) -> str | None:
        """The one container format that FFmpeg tries; None: all those of videos."""
        return None

    @property
    def demuxer_options(self) -> dict[str, str]:
        """What that format must be told."""
        return {}

    def open_bytes(self) -> BinaryIO:
        """Return what reads the bytes from the start; the caller closes it. Raises OSError."""
        return self.path.open("rb")

    def for_ffmpeg(self) -> str | BinaryIO:
        """Return what FFmpeg opens: a name, never to be taken for an address, or what reads it."""
        return f"file:{self.path.absolute()}"

    def fingerprint(self) -> Fingerprint:
        """Return size and time of change.

        Raises:
            OpenError: missing, unreadable, empty, or not a regular file (a folder, a pipe).
        """
        try:
            found = self.path.stat()
        except OSError as error:
            raise OpenError(
                f"cannot open {self}: {_reason(error)}; give the path of a video file",
                source=str(self),
            ) from error
        if not stat.S_ISREG(found.st_mode):
            kind = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
            raise OpenError(
                f"cannot open {self}: it is {kind}; give the path of a video file",
                source=str(self),
            )
        if found.st_size == 0:
            raise OpenError(
                f"cannot open {self}: the file is empty (0 bytes); copy or record it again",
                source=str(self),
            )
        return Fingerprint(found.st_size, found.st_mtime_ns)

    def content_id(self) -> str:
        """Return an id of the content that survives copying and renaming.

        Reads at most 192 KiB: SHA-256 over the size and the first, middle and last 64 KiB.

        Raises:
            OpenError: the file cannot be read.
        """
        size = self.fingerprint().size
        digest = hashlib.sha256(size.to_bytes(8, "little"))
        try:
            with self.open_bytes() as file:
                for offset in (0, size // 2, max(0, size - _CONTENT_SAMPLE_BYTES)):
                    file.seek(offset)
                    digest.update(file.read(_CONTENT_SAMPLE_BYTES))
        except OSError as error:
            raise OpenError(f"cannot read {self}: {_reason(error)}", source=str(self)) from error
        return digest.hexdigest()


def _reason(error: OSError) -> str:
    """Return the operating system's own words, without number or path."""
    return (error.strerror or str(error)).lower()
