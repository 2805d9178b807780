"""Finding videos: files, folders, and lists of videos."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from headrace.errors import ConfigError
from headrace.video.image_sequence import is_pattern
from headrace.video.source import check_is_list, refuse_address
from headrace.video.video_table import VIDEO_SUFFIXES, path_column, path_of, read_table

_LISTS = (".txt", ".csv", ".tsv", ".jsonl")
OUTPUT_HOME: Final = ".extraction"
"""Folder inside a folder that was written from videos, such as one of proxies."""


def find_videos(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the videos of files, folders and lists.

    A folder gives the videos below it, by suffix, sorted by path, without hidden files and folders
    of proxies. A list gives its videos: a `.txt` file has one path per line, with or without labels
    after it; a `.csv`, `.tsv` or `.jsonl` file has a column path, video, file or filename. In a
    `.csv` without column names, the first column has the paths. Paths in a list are relative to it.

    Raises:
        ConfigError: `paths` is one path, a folder or list holds no video, a list cannot be read, or
            a path is a URL.
    """
    check_is_list(paths, "put it in a list")
    videos: list[Path] = []
    for name in paths:
        refuse_address(name)
        path = Path(name)
        if path.is_dir():
            videos += _videos_in_folder(path)
        elif path.suffix.lower() in _LISTS:
            videos += _videos_in_list(path)
        elif is_pattern(path):
            raise ConfigError(
                f"{path} is no file; if it is a pattern of images, give their number a "
                "second (ImageSequence; --framerate of a command that has it)"
            )
        else:
            videos.append(path)
    return videos


def _videos_in_folder(folder: Path) -> list[Path]:
    # Hidden files, such as the ._ files that macOS leaves on other disks, are left out.
    videos = sorted(
        path
        for path in _files(folder)
        if path.suffix.lower() in VIDEO_SUFFIXES and path.name[0] != "."
    )
    if not videos:
        raise ConfigError(
            f"the folder {folder} holds no file that is named like a video "
            f"({' '.join(sorted(VIDEO_SUFFIXES))}); name the files themselves; image sequences "
            "need a rate (ImageSequence; --framerate of a command that has it)"
        )
    return videos


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder, without nested folders that were written from videos.

    Proxies beside their originals are not further videos.
    """
    for parent, folders, names in os.walk(folder):
        if OUTPUT_HOME in folders and Path(parent) != folder:
            folders.clear()
            continue
        yield from (Path(parent, name) for name in names)


def _videos_in_list(path: Path) -> list[Path]:
    table = read_table(path, "list of videos")
    column = path_column(table.heads, str(path)) if table.heads else ""
    if not table.rows:
        raise ConfigError(f"{path} lists no video")
    return [
        path.parent / path_of(row.get(column), table.where(number))
        for number, row in enumerate(table.rows)
    ]
