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
    "Read folders of images, or patterns such as frames/%05d.jpg, at this rate in images/s.",
    flags=("--framerate",),
    metavar="RATE",
)


@dataclass(frozen=True)
class ImageSequence(Source):
    """Images of one folder as a video with a rate. A source like any video file.

        frames = headrace.ImageSequence("frames/%05d.jpg", rate=10)
        FrameLoader([frames, "other.mp4"], size=(256, 256))

    A folder stands for all its images, in the order of their names; a pattern for the numbered
    images that match it, from the lowest number on. Images are decoded independently. The index
    does not detect that an image in the middle was overwritten in place.

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
        """The only container format that FFmpeg tries."""
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
        """Return the pattern for FFmpeg; absolute, so that it is not read as a URL."""
        path = self.path.absolute()
        if self._number is not None:
            return f"{str(path.parent).replace('%', '%%')}/{path.name}"
        return _SPECIAL.sub(r"\\\1", str(path)) + "/*" + self.pictures[0].suffix

    def open_bytes(self) -> BinaryIO:
        """Return a reader of the first image; the caller closes it. Raises OSError."""
        return self.pictures[0].open("rb")

    def fingerprint(self) -> FileStat:
        """Return size and time of the first and the last image, with a checksum of all names.

        Other files in the folder have no effect.

        Raises:
            OpenError: the folder or an image is missing.
        """
        pictures = self.pictures
        try:
            stats = [path.stat() for path in (pictures[0], pictures[-1])]
        except OSError as error:
            raise self._cannot_open(reason_of(error)) from error
        names = zlib.crc32("/".join(path.name for path in pictures).encode(errors="replace"))
        size = sum(file.st_size for file in stats) + names
        return FileStat(size, max(file.st_mtime_ns for file in stats))

    def content_id(self) -> str:
        """Return an id of all names and sizes, which survives copying.

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
        """The image files, in order; listed again if the folder changes.

        Raises:
            OpenError: the folder is missing or has no image, or the order is ambiguous.
        """
        folder = self.path if self._number is None else self.path.parent
        try:
            changed = folder.stat().st_mtime_ns
            if self._listing.get("changed") == changed:
                listed: tuple[Path, ...] = self._listing["pictures"]
                return listed
            names = sorted(entry.name for entry in os.scandir(folder) if entry.name[0] != ".")
        except OSError as error:
            hint = "; for a video give no rate" if folder.is_file() else ""
            raise self._cannot_open(
                f"{reason_of(error)}; give a folder of images, or a "
                f"pattern such as frames/%05d.jpg{hint}"
            ) from error
        names = (
            self._numbered_names(names) if self._number is not None else self._sorted_names(names)
        )
        pictures = tuple(folder / name for name in names)
        self._listing.update(changed=changed, pictures=pictures)
        return pictures

    @cached_property
    def _listing(self) -> dict[str, Any]:
        """The last listing, and the folder's modification time then."""
        return {}

    @cached_property
    def _number(self) -> re.Pattern[str] | None:
        """Regular expression of the pattern's names, with their number; None for a folder."""
        number = _NUMBER.search(self.path.name)
        if number is None:
            return None
        before, after = self.path.name[: number.start()], self.path.name[number.end() :]
        digits = f"\\d{{{int(number[2])},}}" if number[1] and number[2] else "0|[1-9]\\d*"
        return re.compile(f"{re.escape(before)}({digits}){re.escape(after)}", re.ASCII)

    def _numbered_names(self, names: list[str]) -> list[str]:
        assert self._number is not None
        if self.path.suffix.lower() not in _SUFFIXES:
            raise self._cannot_open(f"suffixes of images are {' '.join(sorted(_SUFFIXES))}")
        by_number = {int(m[1]): m[0] for m in map(self._number.fullmatch, names) if m}
        if not by_number:
            raise self._cannot_open("no file matches it; give another pattern")
        first = min(by_number)
        for number in range(first, first + len(by_number)):
            if number not in by_number:
                raise self._cannot_open(
                    f"number {number} is missing between {first} and {max(by_number)}; copy it "
                    "again, or give the folder, to read all existing images"
                )
        return [by_number[number] for number in sorted(by_number)]

    def _sorted_names(self, names: list[str]) -> list[str]:
        images = [name for name in names if Path(name).suffix.lower() in _SUFFIXES]
        suffixes = sorted({Path(name).suffix for name in images})
        if len(suffixes) != 1:
            content = f"images of several kinds ({' '.join(suffixes)})" if images else "no image"
            raise self._cannot_open(
                f"{content} in it; give a folder of one of {' '.join(sorted(_SUFFIXES))}"
            )
        if images != sorted(images, key=_by_number):
            raise self._cannot_open(
                "the order of its images is ambiguous: numbers in their names have no leading "
                "zeros; give a pattern such as frames/%d.jpg"
            )
        return images

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
    """Return whether a path looks like a pattern of images, and no such file exists."""
    return _NUMBER.search(Path(path).name) is not None and not Path(path).exists()


def without_number(path: Path) -> Path:
    """Return a pattern's base name: frames/left for frames/left_%05d.jpg, the folder for %05d.jpg.

    Other paths are returned unchanged.
    """
    number = _NUMBER.search(path.name)
    if number is None:
        return path
    name = (path.name[: number.start()] or path.stem[number.end() :]).strip("_-. ")
    return path.with_name(name) if name else path.parent


def _by_number(name: str) -> list[tuple[int, int, str]]:
    """Return the sort key of a name by the numbers in it."""
    parts = re.split(r"(\d+)", name)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts if part]
