"""Pictures in order, with a rate: what is a video but for its file."""

import hashlib
import os
import re
import zlib
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Final

from headrace.config_fields import Option
from headrace.errors import ConfigError, OpenError, reason_of
from headrace.video.source import FileStat, Source, Stream, refuse_address
from headrace.video.timebase import exact_number

_SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"])
_NUMBER = re.compile(r"%(0?)(\d*)d")
_SPECIAL = re.compile(r"([*?\[\]{}\\~])")
_MOST_PER_SECOND = 10_000

Rate = Fraction | float | str
"""Pictures per second of media time: 10, 12.5, "30000/1001"."""
RATE_OPTION: Final = Option(
    "Pictures a second; a path is then a folder of pictures, or a pattern such as frames/%05d.jpg.",
    flags=("--framerate",),
    metavar="RATE",
)


@dataclass(frozen=True)
class ImageSequence(Source):
    """Pictures of one folder, shown one after the other at a rate. A source like any video file.

        frames = headrace.ImageSequence("frames/%05d.jpg", rate=10)
        FrameLoader([frames, "other.mp4"], size=(256, 256))

    Given a folder, all its pictures in the order of their names; given a pattern, those that are
    numbered that way, from the lowest number on. Each is read and decoded by itself. That a
    picture in the middle is written over in place is not noticed.

    Raises:
        ConfigError: the rate is no number above 0, or the pattern none.
    """

    rate: Rate = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.stream is not None:
            raise ConfigError(
                f"pictures have no streams to choose from, and stream {self.stream!r} was asked "
                f"for of {self.path}; leave it out"
            )
        refuse_address(self.path)
        object.__setattr__(self, "path", Path(self.path))
        rate = exact_number("rate", self.rate).limit_denominator(1 << 16)
        if not 0 < rate <= _MOST_PER_SECOND:
            raise ConfigError(
                f"rate must be above 0 and at most {_MOST_PER_SECOND} pictures a second, "
                f"got {self.rate!r}"
            )
        object.__setattr__(self, "rate", rate)
        name = self.path.name
        is_pattern = _NUMBER.search(name) is not None and name.count("%") == 1
        if "%" in name and not is_pattern and not self.path.is_dir():
            raise ConfigError(
                f"a pattern of pictures has one number, as in frames/%05d.jpg, got {self.path}"
            )

    @property
    def key(self) -> bytes:
        """What its index is known by."""
        return super().key + f"@{self.rate}".encode()

    @property
    def demuxer(self) -> str | None:
        """The one format that FFmpeg tries."""
        return "image2"

    @property
    def demuxer_options(self) -> dict[str, str]:
        """What FFmpeg must be told."""
        options = {"framerate": str(self.rate)}
        if self._number is None:
            return {**options, "pattern_type": "glob"}
        first = int(self._number.fullmatch(self.pictures[0].name)[1])  # type: ignore[index]
        return {**options, "pattern_type": "sequence", "start_number": str(first)}

    def for_ffmpeg(self) -> str:
        """Return the absolute pattern that FFmpeg looks for; it can be taken for no address."""
        path = self.path.absolute()
        if self._number is not None:
            return f"{str(path.parent).replace('%', '%%')}/{path.name}"
        return _SPECIAL.sub(r"\\\1", str(path)) + "/*" + self.pictures[0].suffix

    def open_bytes(self) -> BinaryIO:
        """Return what reads the first picture; the caller closes it. Raises OSError."""
        return self.pictures[0].open("rb")

    def fingerprint(self) -> FileStat:
        """Return what tells one state of the pictures from the next: names, the first, the last.

        Other files that come and go in the folder change nothing.

        Raises:
            OpenError: there is no such folder, or no such picture, or one is missing.
        """
        pictures = self.pictures
        try:
            found = [each.stat() for each in (pictures[0], pictures[-1])]
        except OSError as error:
            raise self._cannot_open(reason_of(error)) from error
        names = zlib.crc32("/".join(each.name for each in pictures).encode(errors="replace"))
        size = sum(each.st_size for each in found) + names
        return FileStat(size, max(each.st_mtime_ns for each in found))

    def content_id(self) -> str:
        """Return an id of the content that survives copying: of all names and sizes.

        Raises:
            OpenError: the pictures cannot be read.
        """
        try:
            rows = [f"{each.name}/{each.stat().st_size}" for each in self.pictures]
        except OSError as error:
            raise self._cannot_open(reason_of(error)) from error
        return hashlib.sha256("\n".join([*rows, f"@{self.rate}"]).encode()).hexdigest()

    @property
    def pictures(self) -> tuple[Path, ...]:
        """The files, in order; looked for again where an entry of the folder came or went.

        Raises:
            OpenError: there is no such folder, no picture in it, or its order is not certain.
        """
        folder = self.path if self._number is None else self.path.parent
        try:
            changed = folder.stat().st_mtime_ns
            if self._listed.get("changed") == changed:
                known: tuple[Path, ...] = self._listed["pictures"]
                return known
            names = sorted(entry.name for entry in os.scandir(folder) if entry.name[0] != ".")
        except OSError as error:
            own = "; a video has a rate of its own, so give none" if folder.is_file() else ""
            raise self._cannot_open(
                f"{reason_of(error)}; give a folder of pictures, or a "
                f"pattern such as frames/%05d.jpg{own}"
            ) from error
        names = self._numbered(names) if self._number is not None else self._named(names)
        found = tuple(folder / name for name in names)
        self._listed.update(changed=changed, pictures=found)
        return found

    @cached_property
    def _listed(self) -> dict[str, Any]:
        """The pictures that were found last, and when the folder had last changed then."""
        return {}

    @cached_property
    def _number(self) -> re.Pattern[str] | None:
        """What a name of the pattern looks like, with its number; None of a folder."""
        found = _NUMBER.search(self.path.name)
        if found is None:
            return None
        before, after = self.path.name[: found.start()], self.path.name[found.end() :]
        digits = f"\\d{{{int(found[2])},}}" if found[1] and found[2] else "0|[1-9]\\d*"
        return re.compile(f"{re.escape(before)}({digits}){re.escape(after)}", re.ASCII)

    def _numbered(self, names: list[str]) -> list[str]:
        assert self._number is not None
        if self.path.suffix.lower() not in _SUFFIXES:
            raise self._cannot_open(f"pictures are named {' '.join(sorted(_SUFFIXES))}")
        found = {int(m[1]): m[0] for m in map(self._number.fullmatch, names) if m}
        if not found:
            raise self._cannot_open("no file is named like that; give another pattern")
        first = min(found)
        for number in range(first, first + len(found)):
            if number not in found:
                raise self._cannot_open(
                    f"number {number} is missing between {first} and {max(found)}; copy it again, "
                    "or give the folder, to read all that are there"
                )
        return [found[number] for number in sorted(found)]

    def _named(self, names: list[str]) -> list[str]:
        found = [name for name in names if Path(name).suffix.lower() in _SUFFIXES]
        suffixes = sorted({Path(name).suffix for name in found})
        if len(suffixes) != 1:
            there = f"pictures of several kinds ({' '.join(suffixes)})" if found else "no picture"
            raise self._cannot_open(
                f"{there} in it; give a folder of one of {' '.join(sorted(_SUFFIXES))}"
            )
        if found != sorted(found, key=_by_number):
            raise self._cannot_open(
                "the order of its pictures is not certain, as numbers in their names have no "
                "leading zeros; give a pattern such as frames/%d.jpg"
            )
        return found

    def _cannot_open(self, why: str) -> OpenError:
        return OpenError(f"cannot open the pictures {self}: {why}", source=str(self))


def source_at(
    path: str | os.PathLike[str], *, rate: Rate | None = None, stream: Stream | None = None
) -> Source:
    """Return the video at a path: a file, or, with a rate, pictures in order.

    Raises:
        ConfigError: the rate or the stream is none, or they do not go together.
    """
    if rate is None:
        return Source.of(path, stream)
    return ImageSequence(Path(path), stream, rate=rate)


def rate_of(source: Source) -> str | None:
    """Return the rate that `source_at` makes the same source of; None of a file."""
    return str(source.rate) if isinstance(source, ImageSequence) else None


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Return whether a path that names no file reads like a pattern of pictures."""
    return _NUMBER.search(Path(path).name) is not None and not Path(path).exists()


def without_number(path: Path) -> Path:
    """Return what a pattern is called after: frames/left_%05d.jpg frames/left, %05d.jpg its folder.

    Another path stays as it is.
    """
    found = _NUMBER.search(path.name)
    if found is None:
        return path
    name = (path.name[: found.start()] or path.stem[found.end() :]).strip("_-. ")
    return path.with_name(name) if name else path.parent


def _by_number(name: str) -> list[tuple[int, int, str]]:
    """Return what names are sorted by if the numbers in them count."""
    parts = re.split(r"(\d+)", name)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts if part]
