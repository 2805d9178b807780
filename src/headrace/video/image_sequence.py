"""Image sequence: numbered images with a rate, read as a video."""

import hashlib
import os
import re
import zlib
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, Final

from headrace.cached_property import cached_property
from headrace.config_fields import Option
from headrace.errors import ConfigError, OpenError, reason_of
from headrace.video.source import FileStat, Source, Stream, refuse_address
from headrace.video.timebase import exact_number

_SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"])
_NUMBER = re.compile(r"%(0?)(\d*)d")
_SPECIAL = re.compile(r"([*?\[\]{}\\~])")
_MAX_RATE = 10_000

Rate = Fraction | float | str
"""Images per second of media time: 10, 12.5, "30000/1001"."""
RATE_OPTION: Final = Option(
    "Images per second; each path is then an image folder or a pattern (frames/%05d.jpg).",
    flags=("--framerate",),
    metavar="RATE",
)


@dataclass(frozen=True)
class ImageSequence(Source):
    """Images of one folder as a video with a rate. A source like any video file.

        frames = headrace.ImageSequence("frames/%05d.jpg", rate=10)
        FrameLoader([frames, "other.mp4"], size=(256, 256))

    A folder means all its images in the order of their names; a pattern means the images numbered
    that way, from the lowest number on. Each image is decoded by itself. Overwriting an image in
    the middle in place is not detected.

    Raises:
        ConfigError: the rate is not a number above 0, or the pattern is invalid.
    """

    rate: Rate = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.stream is not None:
            raise ConfigError(
                f"an image sequence has no streams; stream {self.stream!r} was requested "
                f"of {self.path}; leave it out"
            )
        refuse_address(self.path)
        object.__setattr__(self, "path", Path(self.path))
        rate = exact_number("rate", self.rate).limit_denominator(1 << 16)
        if not 0 < rate <= _MAX_RATE:
            raise ConfigError(
                f"rate must be above 0 and at most {_MAX_RATE} images a second, got {self.rate!r}"
            )
        object.__setattr__(self, "rate", rate)
        name = self.path.name
        is_pattern = _NUMBER.search(name) is not None and name.count("%") == 1
        if "%" in name and not is_pattern and not self.path.is_dir():
            raise ConfigError(
                f"a pattern of images has one number, as in frames/%05d.jpg, got {self.path}"
            )

    @property
    def key(self) -> bytes:
        """Key of its index."""
        return super().key + f"@{self.rate}".encode()

    @property
    def demuxer(self) -> str | None:
        """The one format that FFmpeg tries."""
        return "image2"

    @property
    def demuxer_options(self) -> dict[str, str]:
        """Options of that format."""
        options = {"framerate": str(self.rate)}
        if self._number is None:
            return {**options, "pattern_type": "glob"}
        first = int(self._number.fullmatch(self.pictures[0].name)[1])  # type: ignore[index]
        return {**options, "pattern_type": "sequence", "start_number": str(first)}

    def for_ffmpeg(self) -> str:
        """Return the absolute pattern for FFmpeg, which cannot be taken for a URL."""
        path = self.path.absolute()
        if self._number is not None:
            return f"{str(path.parent).replace('%', '%%')}/{path.name}"
        return _SPECIAL.sub(r"\\\1", str(path)) + "/*" + self.pictures[0].suffix

    def open_bytes(self) -> BinaryIO:
        """Return a reader of the first image; the caller closes it. Raises OSError."""
        return self.pictures[0].open("rb")

    def fingerprint(self) -> FileStat:
        """Return the state of the images: names, the first, and the last.

        Other files in the folder have no effect.

        Raises:
            OpenError: the folder or an image is missing.
        """
        pictures = self.pictures
        try:
            found = [path.stat() for path in (pictures[0], pictures[-1])]
        except OSError as error:
            raise self._cannot_open(reason_of(error)) from error
        names = zlib.crc32("/".join(path.name for path in pictures).encode(errors="replace"))
        size = sum(path.st_size for path in found) + names
        return FileStat(size, max(path.st_mtime_ns for path in found))

    def content_id(self) -> str:
        """Return an id of the content that survives copying: of all names and sizes.

        Raises:
            OpenError: the images cannot be read.
        """
        try:
            rows = [f"{path.name}/{path.stat().st_size}" for path in self.pictures]
        except OSError as error:
            raise self._cannot_open(reason_of(error)) from error
        return hashlib.sha256("\n".join([*rows, f"@{self.rate}"]).encode()).hexdigest()

    @property
    def pictures(self) -> tuple[Path, ...]:
        """The image files, in order; listed again after a change of the folder.

        Raises:
            OpenError: the folder is missing, holds no image, or the order is ambiguous.
        """
        folder = self.path if self._number is None else self.path.parent
        try:
            changed = folder.stat().st_mtime_ns
            if self._listing.get("changed") == changed:
                known: tuple[Path, ...] = self._listing["pictures"]
                return known
            names = sorted(entry.name for entry in os.scandir(folder) if entry.name[0] != ".")
        except OSError as error:
            own = "; a video has a rate of its own, so give none" if folder.is_file() else ""
            raise self._cannot_open(
                f"{reason_of(error)}; give a folder of images, or a "
                f"pattern such as frames/%05d.jpg{own}"
            ) from error
        names = (
            self._numbered_names(names) if self._number is not None else self._sorted_names(names)
        )
        found = tuple(folder / name for name in names)
        self._listing.update(changed=changed, pictures=found)
        return found

    @cached_property
    def _listing(self) -> dict[str, Any]:
        """The images listed last, and the folder's modification time then."""
        return {}

    @cached_property
    def _number(self) -> re.Pattern[str] | None:
        """Regular expression of the pattern's names, with their number; None for a folder."""
        found = _NUMBER.search(self.path.name)
        if found is None:
            return None
        before, after = self.path.name[: found.start()], self.path.name[found.end() :]
        digits = f"\\d{{{int(found[2])},}}" if found[1] and found[2] else "0|[1-9]\\d*"
        return re.compile(f"{re.escape(before)}({digits}){re.escape(after)}", re.ASCII)

    def _numbered_names(self, names: list[str]) -> list[str]:
        assert self._number is not None
        if self.path.suffix.lower() not in _SUFFIXES:
            raise self._cannot_open(f"images are named {' '.join(sorted(_SUFFIXES))}")
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

    def _sorted_names(self, names: list[str]) -> list[str]:
        found = [name for name in names if Path(name).suffix.lower() in _SUFFIXES]
        suffixes = sorted({Path(name).suffix for name in found})
        if len(suffixes) != 1:
            content = f"images of several kinds ({' '.join(suffixes)})" if found else "no image"
            raise self._cannot_open(
                f"{content} in it; give a folder of one of {' '.join(sorted(_SUFFIXES))}"
            )
        if found != sorted(found, key=_by_number):
            raise self._cannot_open(
                "the order of its images is ambiguous, as numbers in their names have no "
                "leading zeros; give a pattern such as frames/%d.jpg"
            )
        return found

    def _cannot_open(self, reason: str) -> OpenError:
        return OpenError(f"cannot open the images {self}: {reason}", source=str(self))


def source_at(
    path: str | os.PathLike[str], *, rate: Rate | None = None, stream: Stream | None = None
) -> Source:
    """Return the video at a path: a file, or, with a rate, an image sequence.

    Raises:
        ConfigError: the rate or the stream is invalid, or both are given.
    """
    if rate is None:
        return Source.of(path, stream)
    return ImageSequence(Path(path), stream, rate=rate)


def rate_of(source: Source) -> str | None:
    """Return the rate for `source_at`; None for a file."""
    return str(source.rate) if isinstance(source, ImageSequence) else None


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Return whether a path that names no file looks like a pattern of images."""
    return _NUMBER.search(Path(path).name) is not None and not Path(path).exists()


def without_number(path: Path) -> Path:
    """Return a pattern's base name: frames/left for frames/left_%05d.jpg, the folder for %05d.jpg.

    Other paths are returned unchanged.
    """
    found = _NUMBER.search(path.name)
    if found is None:
        return path
    name = (path.name[: found.start()] or path.stem[found.end() :]).strip("_-. ")
    return path.with_name(name) if name else path.parent


def _by_number(name: str) -> list[tuple[int, int, str]]:
    """Return the sort key of names by the numbers in them."""
    parts = re.split(r"(\d+)", name)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts if part]
