"""Many videos: files and folders as the user names them."""

import os
from collections.abc import Iterable
from pathlib import Path

from headrace.errors import ConfigError

_SUFFIXES = frozenset(
    [
        *(".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".ts", ".m2ts", ".mts", ".mpg"),
        *(".mpeg", ".flv", ".ogv", ".wmv", ".asf", ".3gp", ".mxf", ".h264", ".264", ".hevc"),
        *(".265", ".ivf", ".y4m"),
    ]
)


def find_videos(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return files as given, and in each folder the videos below it, by suffix, sorted by path.

    Raises:
        ConfigError: a folder holds no video.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(p for p in path.rglob("*") if p.suffix.lower() in _SUFFIXES)
        if not inside:
            raise ConfigError(
                f"the folder {path} holds no file that is named like a video "
                f"({' '.join(sorted(_SUFFIXES))}); name the files themselves"
            )
        found += inside
    return found
