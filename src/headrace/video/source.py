"""Where a video comes from."""

import hashlib
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final

from headrace.errors import ConfigError, OpenError, reason_of
from headrace.redaction import masked
from headrace.units import check_integers

_CONTENT_SAMPLE_BYTES = 1 << 16
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
"""A `Path` of an address has lost a slash."""
_HOST = re.compile(r"[\w.:\[\]-]+(?=/|$)", re.ASCII)
_OF_VIDEOS = re.compile(r"v:(0|[1-9]\d{0,3})", re.ASCII)

_MOST_DIGITS = 4
NO_AUDIO = "headrace reads no audio; take torchcodec's AudioDecoder or torchaudio for it"
"""For errors, where a stream of sound is asked for."""

Stream = int | str
"""Which stream of a file: 2, the number among all of them; or "v:1", among its video streams."""


@dataclass(frozen=True)
class FileStat:
    """What tells one version of a file from the next without reading it."""

    size: int
    """Bytes."""
    mtime_ns: int
    """Time of the last change, nanoseconds since the epoch."""


@dataclass(frozen=True)
class Source:
    """One video file and the stream of it that is meant."""

    path: Path
    """A string is one, too; an address is none."""
    stream: Stream | None = None
    """Which stream of the file: its number among all of them, audio and data too, as FFmpeg and
    torchcodec count; or "v:1", the second of its video streams. None takes the one that FFmpeg
    calls best."""

    @classmethod
    def of(
        cls, source: "Source | str | os.PathLike[str]", stream: Stream | None = None
    ) -> "Source":
        """Return `source` as a Source; a string is a path.

        Raises:
            ConfigError: it is none of these, or an address (`https://`, `s3://`); or `stream` is
                none, or another one than the source says.
        """
        if not isinstance(source, Source | str | os.PathLike):
            raise ConfigError(f"a video is named by its path, got {type(source).__name__}")
        found = source if isinstance(source, Source) else cls(Path(source))
        return found if stream is None else found.with_stream(stream)

    def __post_init__(self) -> None:
        refuse_address(self.path)
        object.__setattr__(self, "path", Path(self.path))
        object.__setattr__(self, "stream", _stream(self.stream))

    def with_stream(self, stream: Stream) -> "Source":
        """Return the same file with one of its streams.

        Raises:
            ConfigError: `stream` is none, or another one than the source says.
        """
        found = replace(self, stream=stream)
        if self.stream not in (None, found.stream):
            raise ConfigError(
                f"stream {found.stream} was asked for of {self}, whose Source says stream "
                f"{self.stream}; leave out one of the two"
            )
        return found

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
    def stream_in_file(self) -> Stream | None:
        """Which stream of the file that FFmpeg opens."""
        return self.stream

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

    def fingerprint(self) -> FileStat:
        """Return size and time of change.

        Raises:
            OpenError: missing, unreadable, empty, or not a regular file (a folder, a pipe).
        """
        try:
            found = self.path.stat()
        except OSError as error:
            # It may be an address, with a password, given where files are read.
            shown = masked(str(self))
            raise OpenError(
                f"cannot open {shown}: {_reason(error)}; give the path of a video file",
                source=shown,
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
        return FileStat(found.st_size, found.st_mtime_ns)

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


def check_is_list(
    videos: object,
    hint: str = "put it in a list, or give headrace.find_videos([it]), which looks into folders "
    "and lists",
) -> None:
    """Do nothing if `videos` is a list of paths, or another iterable of them.

    Args:
        videos: What was given.
        hint: What to do with one path, a clause: `put it in a list`.

    Raises:
        ConfigError: it is one path, whose letters would be taken for paths, an address, or no
            iterable.
    """
    if isinstance(videos, str | os.PathLike):
        refuse_address(videos)
    if isinstance(videos, str | bytes | os.PathLike | Source):
        raise ConfigError(f"videos must be a list of paths, got one path, {str(videos)!r}; {hint}")
    if not isinstance(videos, Iterable):
        raise ConfigError(f"videos must be a list of paths, got {type(videos).__name__}")


def refuse_address(path: str | os.PathLike[str], *, is_output: bool = False) -> None:
    """Do nothing if `path` is one, and not an address such as https:// or s3://.

    Args:
        path: What was given.
        is_output: Whether it is written to, and not read.

    Raises:
        ConfigError: it is an address. Of it no more is shown than the host, and that only where no
            name or password can stand before it.
    """
    found = _ADDRESS.match(os.fsdecode(path))
    if found is None or Path(f"{found[1]}:").is_dir():
        return
    scheme, rest = found[1].lower(), found[2]
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
    """Return which stream is meant; a number may come as text, as commands and tables have it."""
    if isinstance(stream, str | bool):
        text = str(stream)
        if _OF_VIDEOS.fullmatch(text):
            return text
        if not (text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS):
            audio = f"; {NO_AUDIO}" if text.startswith("a:") else ""
            raise ConfigError(
                "stream must be the number of a stream among all of its file, such as 1, or "
                f'"v:1", the second of its video streams, got {stream!r}{audio}'
            )
        return int(stream)
    check_integers(0, stream=stream)
    return None if stream is None else int(stream)


def _reason(error: OSError) -> str:
    """Return the operating system's own words, without number or path."""
    return reason_of(error)


AGAIN: Final = "copy it again, or delete it and give the same headrace proxy command again"
"""What is to be done about a file of a proxy that is not as it was made, in words."""


@dataclass(frozen=True)
class ProxySource(Source):
    """A video by its own path and name, whose pictures come from a proxy.

    What it is called, its frames, their times and its GOPs are the original's, so that labels,
    samples and states are the same. The original need not be there: `Proxies.of` has checked it.
    """

    proxy: Path = field(kw_only=True)
    """The MP4 that is read."""
    entry: Path = field(kw_only=True)
    """What is known of it: see `decode.packet_table`."""
    proxy_bytes: int = field(kw_only=True)
    """Size of the MP4 when it was made."""
    known: FileStat = field(kw_only=True)
    """Of the original when the proxy was made."""

    @property
    def key(self) -> bytes:
        """What its index would be known by."""
        return super().key + f"@{self.proxy.absolute()}".encode(errors="surrogateescape")

    @property
    def stream_in_file(self) -> int | None:
        """Number of the stream in the proxy: it has one."""
        return None

    def open_bytes(self) -> BinaryIO:
        """Return what reads the proxy from its start; the caller closes it. Raises OSError."""
        return self.proxy.open("rb")

    def for_ffmpeg(self) -> str:
        """Return the proxy, as a name that is never taken for an address."""
        return f"file:{self.proxy.absolute()}"

    def fingerprint(self) -> FileStat:
        """Return that of the original, as it was when the proxy was made; looks at no file."""
        return self.known
