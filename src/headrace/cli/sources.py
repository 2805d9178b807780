"""Videos as a command names them: files, one stream of a file, or pictures in order with a rate."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.video.source import Source

STREAM: Final = "Which stream of a file: its number among all streams, or v:1, the second video."


def source_of(path: str | Path, *, rate: str | None, stream: str | None) -> "Source":
    """Return the video that a path names.

    Raises:
        ConfigError: the rate or stream is none, they do not go together, or a pattern of pictures
            has no rate.
    """
    from headrace.errors import ConfigError
    from headrace.video.image_sequence import is_pattern, source_at

    if rate is None and is_pattern(path):
        raise ConfigError(
            f"{path} is no file; if it is a pattern of pictures, say with --rate how many are "
            "shown a second"
        )
    if rate is None and Path(path).is_dir():
        raise ConfigError(
            f"{path} is a folder; give a video file, or, if it holds pictures in order, say with "
            "--rate how many are shown a second"
        )
    return source_at(path, rate=rate, stream=stream)


def sources_of(
    paths: Iterable[Path], *, rate: str | None = None, stream: str | None = None
) -> "list[Source]":
    """Return the videos that paths name: files, folders and lists of them; or, with a rate,
    pictures.

    Raises:
        ConfigError: as `source_of`; or a folder or list holds no video.
    """
    return [source_of(file, rate=rate, stream=stream) for file in paths_of(paths, rate)]


def paths_of(paths: Iterable[str | Path], rate: str | None) -> list[Path]:
    """Return the files that paths name; with a rate, they name pictures themselves.

    Raises:
        ConfigError: a folder or list holds no video.
    """
    from headrace.video.manifest import find_videos

    return find_videos(paths) if rate is None else [Path(path) for path in paths]
