"""Many videos: files, folders, and lists of them, as the user names them."""

import csv
import json
import os
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
    for what it lists: `.txt` a path on each line, `.csv` and `.jsonl` under path, video, file or
    filename. Paths in a list start where the list lies.

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
        named = [line.strip() for line in lines]
    elif path.suffix.lower() == ".csv":
        named = [_named(row, path) for row in csv.DictReader(lines)]
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
