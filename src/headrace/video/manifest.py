"""Many videos: files, folders, and lists of them, as the user names them."""

import csv
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from headrace.errors import ConfigError

_SUFFIXES = frozenset(
    [
        *(".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".ts", ".m2ts", ".mts", ".mpg"),
        *(".mpeg", ".flv", ".ogv", ".wmv", ".asf", ".3gp", ".mxf", ".h264", ".264", ".hevc"),
        *(".265", ".h265", ".ivf", ".y4m"),
    ]
)
_COLUMNS = ("path", "video", "file", "filename")
_LARGEST_BYTES = 1 << 28


def find_videos(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the videos that paths name.

    A file stands for itself, a folder for the videos below it, by suffix, but for hidden files,
    sorted by path, a list
    for what it lists: `.txt` a path on each line, with or without labels behind it, `.csv` and
    `.jsonl` under path, video, file or filename, or the first column of a `.csv` whose first line
    names a video in place of columns. Paths in a list start where the list lies.

    Raises:
        ConfigError: a folder or list holds no video, or a list cannot be read.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            found += _inside(path)
        elif path.suffix.lower() in (".txt", ".csv", ".jsonl"):
            found += _listed(path)
        else:
            found.append(path)
    return found


def columns_of(lines: list[str], otherwise: tuple[str, ...]) -> list[str] | None:
    """Return what the columns of a CSV without a line of names mean; None: it has such a line.

    It has none if its first cell is named like a video; then columns mean `otherwise`, in order.
    """
    try:
        first = next(csv.reader(lines[:1]), [])
    except csv.Error:
        return None
    if not first or not _is_video_name(first[0].strip()):
        return None
    return [*otherwise[: len(first)], *(f"column {k}" for k in range(len(otherwise), len(first)))]


def _is_video_name(text: str) -> bool:
    return Path(text).suffix.lower() in _SUFFIXES


def _without_labels(line: str) -> str:
    """Return the path of a line "path label ..."; a path may hold blanks, and end as a video."""
    if _is_video_name(line):
        return line
    ends = [match.start() for match in re.finditer(r"\s+", line)]
    return next((line[:end] for end in ends if _is_video_name(line[:end])), line)


def _inside(folder: Path) -> list[Path]:
    # What begins with a dot is hidden, such as the ._ files that macOS leaves on other disks.
    inside = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in _SUFFIXES and path.name[0] != "." and not path.is_dir()
    )
    if not inside:
        raise ConfigError(
            f"the folder {folder} holds no file that is named like a video "
            f"({' '.join(sorted(_SUFFIXES))}); name the files themselves"
        )
    return inside


def _listed(path: Path) -> list[Path]:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{path} is larger than {_LARGEST_BYTES >> 20} MiB; is it a list?")
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}; give a list of videos") from error
    if path.suffix.lower() == ".txt":
        named = [_without_labels(line.strip()) for line in lines]
    elif path.suffix.lower() == ".csv":
        rows = csv.DictReader(lines, columns_of(lines, _COLUMNS))
        try:
            named = [_named(row, path) for row in rows]
        except csv.Error as error:
            raise ConfigError(f"{path} is no CSV behind line {rows.line_num}: {error}") from error
    else:
        named = [_named(_object(line, path), path) for line in lines if line.strip()]
    videos = [path.parent / name for name in named if name]
    if not videos:
        raise ConfigError(f"{path} lists no video")
    return videos


def _object(line: str, path: Path) -> dict[str, object]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{path} has a line that is no JSON: {line[:80]!r}") from error
    return found if isinstance(found, dict) else {"path": found}


def _named(row: dict[str, object], path: Path) -> str:
    for column in _COLUMNS:
        value = row.get(column)
        if isinstance(value, str):
            return value.strip()
    raise ConfigError(
        f"{path} has no column {', '.join(_COLUMNS[:-1])} or {_COLUMNS[-1]} that names a video: "
        f"found {', '.join(map(str, row))[:200]}"
    )
