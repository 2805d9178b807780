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
"""Name of a folder that marks its parent as output of an extraction, such as proxies."""


def find_videos(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the videos of files, folders and lists.

    In a folder, videos are found by suffix, also in sub-folders, sorted by path; hidden files and
    folders of proxies are skipped. A list is a `.txt` file with a path per line, with or without a
    label after it, or a `.csv`, `.tsv` or `.jsonl` file with a column path, video, file or
    filename; in a `.csv` without column names, the first column has the paths. Paths in a list are
    relative to its folder.

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
                f"{path} is not a file; to read a pattern of images, give their rate "
                "(ImageSequence, or --framerate)"
            )
        else:
            videos.append(path)
    return videos


def _videos_in_folder(folder: Path) -> list[Path]:
    # Hidden files are skipped, such as the ._ files that macOS writes to other disks.
    videos = sorted(
        path
        for path in _files(folder)
        if path.suffix.lower() in VIDEO_SUFFIXES and path.name[0] != "."
    )
    if not videos:
        raise ConfigError(
            f"the folder {folder} has no file with a video suffix "
            f"({' '.join(sorted(VIDEO_SUFFIXES))}); give the files themselves, or for images a "
            "rate (ImageSequence, or --framerate)"
        )
    return videos


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder, without nested output folders.

    Proxies next to their originals are not further videos.
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
