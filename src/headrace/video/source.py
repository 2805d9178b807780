"""Source: the path and stream of a video."""

import hashlib
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import BinaryIO, Final

from headrace.errors import ConfigError, OpenError, reason_of
from headrace.redaction import masked
from headrace.units import check_integers

_CONTENT_SAMPLE_BYTES = 1 << 16
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
"""A URL; a `Path` of a URL has lost a slash."""
_HOST = re.compile(r"[\w.:\[\]-]+(?=/|$)", re.ASCII)
_VIDEO_STREAM = re.compile(r"v:(0|[1-9]\d{0,3})", re.ASCII)

_MAX_DIGITS = 4
NO_AUDIO = "headrace reads no audio; use torchcodec's AudioDecoder or torchaudio"
"""Part of errors about audio streams."""

Stream = int | str
"""A stream of a file: 2, its index among all streams; or "v:1", among the video streams."""


@dataclass(frozen=True)
class FileStat:
    """Size and time of a file, which identify its version without a read."""

    size: int
    """Bytes."""
    mtime_ns: int
    """Modification time in nanoseconds since the epoch."""


@dataclass(frozen=True)
class Source:
    """A video file and the stream to read."""

    path: Path
    """A path or a string; URLs are refused."""
    stream: Stream | None = None
    """The stream: its index among all streams, audio and data included, as in FFmpeg and
    torchcodec; or "v:1", the second video stream. None: the stream that FFmpeg prefers."""

    @classmethod
    def of(
        cls, source: "Source | str | os.PathLike[str]", stream: Stream | None = None
    ) -> "Source":
        """Return `source` as a Source; a string is a path.

        Raises:
            ConfigError: it has another type, or is a URL (`https://`, `s3://`); or `stream` is
                invalid, or differs from the source's.
        """
        if not isinstance(source, Source | str | os.PathLike):
            raise ConfigError(f"a video must be a path, got {type(source).__name__}")
        source = source if isinstance(source, Source) else cls(Path(source))
        return source if stream is None else source.with_stream(stream)

    def __post_init__(self) -> None:
        refuse_address(self.path)
        object.__setattr__(self, "path", Path(self.path))
        object.__setattr__(self, "stream", _stream(self.stream))

    def with_stream(self, stream: Stream) -> "Source":
        """Return the same file with one of its streams.

        Raises:
            ConfigError: `stream` is invalid, or differs from the source's.
        """
        source = replace(self, stream=stream)
        if self.stream not in (None, source.stream):
            raise ConfigError(
                f"stream {source.stream} of {self} was requested, but its Source has stream "
                f"{self.stream}; leave out one of the two"
            )
        return source

    def __str__(self) -> str:
        return str(self.path)

    @property
    def has_path(self) -> bool:
        """Whether it is in the file system, where other processes can open it."""
        return True

    @property
    def key(self) -> bytes:
        """Key of its index: absolute path and stream."""
        return os.fsencode(self.path.absolute()) + f"#{self.stream}".encode()

    @property
    def stream_in_file(self) -> Stream | None:
        """The stream of the file that FFmpeg opens."""
        return self.stream

    @property
    def demuxer(self) -> str | None:
        """The only container format that FFmpeg tries; None: all video formats."""
        return None

    @property
    def demuxer_options(self) -> dict[str, str]:
        """Options of that format."""
        return {}

    def open_bytes(self) -> BinaryIO:
        """Return a reader from the start; the caller closes it. Raises OSError."""
        return self.path.open("rb")

    def for_ffmpeg(self) -> str | BinaryIO:
        """Return the input for FFmpeg: the path with the prefix `file:`, or a reader of bytes.

        With the prefix, a path such as `http:a.mp4` is not opened as a URL.
        """
        return f"file:{self.path.absolute()}"

    def fingerprint(self) -> FileStat:
        """Return size and modification time.

        Raises:
            OpenError: it is missing, unreadable, empty, or not a regular file.
        """
        try:
            status = self.path.stat()
        except (OSError, ValueError) as error:
            # The path may be a URL with a password.
            shown = masked(str(self))
            raise OpenError(
                f"cannot open {shown}: {reason_of(error)}; give the path of a video file",
                source=shown,
            ) from error
        if not stat.S_ISREG(status.st_mode):
            kind, fix = "not a regular file", ""
            if stat.S_ISDIR(status.st_mode):
                kind, fix = "a folder", ", or for all of its videos headrace.find_videos([it])"
            raise OpenError(
                f"cannot open {self}: it is {kind}; give the path of a video file{fix}",
                source=str(self),
            )
        if status.st_size == 0:
            raise OpenError(
                f"cannot open {self}: the file is empty (0 bytes); copy or record it again",
                source=str(self),
            )
        return FileStat(status.st_size, status.st_mtime_ns)

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
            raise OpenError(f"cannot read {self}: {reason_of(error)}", source=str(self)) from error
        return digest.hexdigest()


def check_is_list(
    videos: object,
    hint: str = "put it in a list, or give headrace.find_videos([it]), which looks into folders "
    "and lists",
) -> None:
    """Check that `videos` is a list of paths, or another iterable of them.

    Args:
        videos: The argument.
        hint: Advice for a single path, as a clause.

    Raises:
        ConfigError: it is a single path, a URL, or not iterable.
    """
    if isinstance(videos, str | os.PathLike):
        refuse_address(videos)
    if isinstance(videos, str | bytes | os.PathLike | Source):
        raise ConfigError(f"videos must be a list of paths, got one path, {str(videos)!r}; {hint}")
    if not isinstance(videos, Iterable):
        raise ConfigError(f"videos must be a list of paths, got {type(videos).__name__}")


def is_inside(name: str) -> bool:
    """Return whether a path is relative and stays in its folder; for paths in untrusted files."""
    path = PurePath(name)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in name


def refuse_address(path: str | os.PathLike[str], *, is_output: bool = False) -> None:
    """Check that `path` is not a URL such as https:// or s3://.

    Args:
        path: The argument.
        is_output: Whether it is written to.

    Raises:
        ConfigError: it is a URL. The message has at most the host, and nothing that may follow a
            user name or password.
    """
    match = _ADDRESS.match(os.fsdecode(path))
    if match is None or Path(f"{match[1]}:").is_dir():
        return
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file" and not is_output:
        raise ConfigError(
            "file:// is an address, and addresses are not read here; give the path behind it"
        )
    host = None if "@" in rest else _HOST.match(rest)
    if is_output:
        raise ConfigError(
            f"{scheme}://{host[0] if host else '...'} is an address, and nothing is written to "
            "addresses; give a folder of this machine, and copy it from there"
        )
    raise ConfigError(
        f"{scheme}://{host[0] if host else '...'} is an address, and addresses are not read here; "
        "copy the file to this machine, mount the folder that holds it, or give headrace.open a "
        "file object; a camera or stream is read by headrace run and headrace.live, or recorded "
        "first: ffmpeg -i ADDRESS -c copy video.mkv"
    )


def _stream(stream: Stream | None) -> Stream | None:
    """Return a checked stream; the number may be text, as from commands and tables."""
    if isinstance(stream, str | bool):
        text = str(stream)
        if _VIDEO_STREAM.fullmatch(text):
            return text
        if not (text.isdecimal() and text.isascii() and len(text) <= _MAX_DIGITS):
            audio = f"; {NO_AUDIO}" if text.startswith("a:") else ""
            raise ConfigError(
                "stream must be the index of a stream in the file, such as 1, or "
                f'"v:1" for the second video stream, got {stream!r}{audio}'
            )
        return int(stream)
    check_integers(0, stream=stream)
    return None if stream is None else int(stream)


AGAIN: Final = "copy it again, or delete it and give the same headrace proxy command again"
"""Advice for a damaged file of a proxy, as a clause."""


@dataclass(frozen=True)
class ProxySource(Source):
    """A video whose pixels are read from a proxy.

    Path, frames, times and GOPs are the original's, so labels, samples and states are the same. The
    original may be missing: `Proxies.of` checks it.
    """

    proxy: Path = field(kw_only=True)
    """The MP4 to read."""
    entry: Path = field(kw_only=True)
    """Its index entry: see `decode.proxy_index`."""
    proxy_bytes: int = field(kw_only=True)
    """Bytes of the proxy when it was made."""
    known: FileStat = field(kw_only=True)
    """Size and time of the original when the proxy was made."""

    @property
    def key(self) -> bytes:
        """Key of its index."""
        return super().key + f"@{self.proxy.absolute()}".encode(errors="surrogateescape")

    @property
    def stream_in_file(self) -> int | None:
        """None: the proxy has one stream."""
        return None

    def open_bytes(self) -> BinaryIO:
        """Return a reader of the proxy from its start; the caller closes it. Raises OSError."""
        return self.proxy.open("rb")

    def for_ffmpeg(self) -> str:
        """Return the input for FFmpeg: the path of the proxy with the prefix `file:`."""
        return f"file:{self.proxy.absolute()}"

    def fingerprint(self) -> FileStat:
        """Return the original's size and time when the proxy was made; opens no file."""
        return self.known
