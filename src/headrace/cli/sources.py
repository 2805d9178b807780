"""Sources of a command: videos, streams of a file, image sequences; and frame sizes."""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import ConfigError, HeadraceError, OpenError

if TYPE_CHECKING:
    from headrace.video.source import Source


def source_of(path: str | Path, *, rate: str | None, stream: str | None) -> "Source":
    """Return the video or image sequence of a path.

    Raises:
        ConfigError: the rate or stream is malformed, they exclude each other, or a pattern of
            images has no rate.
    """
    from headrace.video.image_sequence import is_pattern, source_at

    if rate is None and is_pattern(path):
        raise ConfigError(
            f"{path} is not a file; for an image pattern, give the images per second with "
            "--framerate"
        )
    if rate is None and Path(path).is_dir():
        raise ConfigError(
            f"{path} is a folder; give a video file, or, for a folder of images, the images per "
            "second with --framerate"
        )
    return source_at(path, rate=rate, stream=stream)


def sources_of(
    paths: Iterable[Path], *, rate: str | None = None, stream: str | None = None
) -> "list[Source]":
    """Return the videos of files, folders and lists; with `rate`, image sequences.

    Raises:
        ConfigError: as `source_of`; or a folder or list holds no video.
    """
    from headrace.video.find_videos import find_videos

    files = find_videos(paths) if rate is None else paths
    return [source_of(file, rate=rate, stream=stream) for file in files]


def check_videos(paths: Iterable[str | Path]) -> None:
    """Raise the first error if none of the videos can be opened."""
    from headrace.video.source import Source

    first: HeadraceError | None = None
    for path in paths:
        try:
            Source(Path(path)).fingerprint()
        except HeadraceError as error:
            first = first or error
        else:
            return
    if first is not None:
        raise first


def check_present(paths: Iterable[str]) -> None:
    """Raise OpenError if a file or folder does not exist; addresses are not checked."""
    for path in paths:
        if "://" not in path and not Path(path).exists():
            raise OpenError(
                f"cannot open {path}: no such file or directory; give an image, a video or a "
                "folder",
                source=path,
            )


def list_line(video: str, arguments: Iterable[str]) -> str:
    """Return ` (line 3 of videos.csv)` if a list contains the video, else an empty string."""
    from headrace.video.find_videos import path_column, read_table

    for path in map(Path, arguments):
        if path.suffix.lower() in (".txt", ".csv", ".tsv", ".jsonl"):
            with suppress(HeadraceError):
                table = read_table(path, "list of videos")
                column = path_column(table.heads, str(path))
                for number, row in enumerate(table.rows):
                    listed = path.parent / str(row.get(column)).strip()
                    if listed.absolute() == Path(video).absolute():
                        return f" ({table.where(number)})"
    return ""


def frame_size(text: str | None) -> tuple[int, int] | None:
    """Return (256, 456) for `256x456`. Raises ConfigError for text of another form."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,5})[x×](\d{1,5})", text.strip(), re.ASCII)
    if match is None:
        raise ConfigError(f"--size must be a height and a width, such as 256x456, got {text!r}")
    return int(match[1]), int(match[2])


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file. Raises ConfigError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}; give a JSON file") from error
